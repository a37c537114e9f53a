"""What verify finds, and what it leaves alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.store.lock import Lock
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store
from tests.unit.training.checkpointing.inspection.program import Program


def test_quarantine_is_refused_while_a_training_runs(
    program: Program, three, flip: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drivetrain.training.checkpointing.store.lock.PATIENCE_S", 0.1)
    monkeypatch.setattr(Lock.__init__, "__kwdefaults__", {"patience_s": 0.1, "beat_s": 60})
    flip(three.folder / "step-00000100" / "state.json")
    with Lock(three.store.place, "digits"):
        assert "is in use by digits" in program.error("verify", three.folder, "--quarantine")
        assert (three.folder / "step-00000100").is_dir()
    said = program("verify", three.folder, "--quarantine", code=1)
    assert "moved to quarantine/step-00000100.1" in said
    report = json.loads((three.folder / "quarantine/step-00000100.1/report.json").read_text())
    assert report["file"] == "state.json"
    assert program("verify", three.folder).startswith("step 20: good")


def test_retention_keeps_checkpoints_that_are_being_read(
    program: Program, three, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While verify reads, whoever writes retires nothing of it."""
    reading, go_on, kept = threading.Event(), threading.Event(), []
    verify = Store.verify

    def slow(self: Store, step: int, names: Any = None) -> None:
        reading.set()
        assert go_on.wait(30)
        verify(self, step, names)

    def writer() -> None:
        assert reading.wait(30)
        writing = Store(open_place(three.folder))
        writing.vouch(100)
        kept.append(writing.retain(Retention(last=1)))
        go_on.set()

    monkeypatch.setattr(Store, "verify", slow)
    thread = threading.Thread(target=writer)
    thread.start()
    assert "step 10: good" in program("verify", three.folder, 10)
    thread.join()
    assert kept == [[20]]
    assert (three.folder / "step-00000010" / "manifest.json").exists()


def test_a_damaged_one_is_named_and_nothing_is_moved(program: Program, three, flip: Callable[..., None]) -> None:
    flip(three.folder / "step-00000020" / "rank-00000-of-00002.safetensors")
    (three.folder / "step-00000020" / "state.json").unlink()
    before = three.files()
    said = program("verify", three.folder, "--all", code=1)
    lines = [line for line in said.splitlines() if line]
    assert lines[0].startswith("step 100: good, ") and lines[1] == "step 20: damaged"
    assert "rank-00000-of-00002.safetensors has the checksum" in lines[2] and "instead of" in lines[2]
    assert "state.json is not there (expected" in lines[3]
    assert lines[4].startswith("step 10: good, ")
    assert three.files() == before
    (_, verdict, _) = program.json("verify", three.folder, "--all", code=1)
    assert [problem["file"] for problem in verdict["problems"]] == [
        "rank-00000-of-00002.safetensors",
        "state.json",
    ]
    assert verdict["problems"][0]["expected"] != verdict["problems"][0]["found"]


def test_a_wrong_index_is_damage(program: Program, made) -> None:
    """Checksums hold what was written; what was written may still make no sense."""
    tensors = {"model/w": ([1.0, 2.0], (2,), [((0,), (1,))])}
    made.save(1, tensors)
    assert "index.json lacks a part of model/w: 1 of 2 numbers" in program("verify", made.folder, code=1)


def test_verify_of_a_missing_file_is_incomplete(program: Program, three) -> None:
    (three.folder / "step-00000100" / "state.json").unlink()
    assert program.json("verify", three.folder, code=1)[0]["state"] == "incomplete"


def test_progress_without_a_terminal_is_silent_and_short(program: Program, three) -> None:
    program("verify", three.folder, "--all")
    assert program.err == ""


def test_all_lists_folders_that_do_not_count(program: Program, three, flip: Callable[..., None]) -> None:
    """Nothing that counts is damaged by them: a save that was interrupted leaves one."""
    (three.folder / "step-00000020" / "manifest.json").unlink()
    said = program("verify", three.folder, "--all")
    lines = said.splitlines()
    assert [line.split(":")[0] for line in lines if not line.startswith(" ")] == ["step 100", "step 20", "step 10"]
    assert lines[1] == "step 20: incomplete, and does not count" and "no manifest.json" in lines[2]
    verdicts = {each["step"]: each for each in program.json("verify", three.folder, "--all")}
    assert (verdicts[20]["state"], verdicts[20]["counts"], verdicts[10]["counts"]) == ("incomplete", False, True)
    assert [each["step"] for each in program.json("verify", three.folder)] == [100]
    flip(three.folder / "step-00000010" / "state.json")
    assert "step 20: incomplete" in program("verify", three.folder, "--all", "--quarantine", code=1)
    assert (three.folder / "step-00000020").is_dir()


@pytest.mark.parametrize("command", ["verify", "show"])
def test_a_step_without_a_manifest_is_distinguished_from_a_missing_one(program: Program, three, command: str) -> None:
    (three.folder / "step-00000020" / "manifest.json").unlink()
    said = program.error(command, three.folder, "20")
    assert "step 20" in said and "step-00000020 has no manifest.json" in said and "There are: 100, 10." in said
    three.store.quarantine(100, DamagedError("for a test", file="state.json"))
    said = program.error(command, three.folder, 100)
    assert "was set aside as quarantine/step-00000100.1" in said and "report.json" in said
