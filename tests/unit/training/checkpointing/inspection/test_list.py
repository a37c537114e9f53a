"""What is listed of checkpoints that were written by hand."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain.steps.trainings import RECORD
from drivetrain.training.checkpointing.inspection import listing
from drivetrain.training.checkpointing.inspection.trainings import Training
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.lock import Lock
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.store.store import Store
from tests.unit.training.checkpointing.inspection.program import TENSORS, Program, rows


def test_list(program: Program, three) -> None:
    text = program("list", three.folder.parent)
    assert text.splitlines()[0] == str(three.folder)
    found = rows(text)
    assert found["STEP"].split() == ["STEP", "EPOCH", "SAVED", "SIZE", "WRITTEN", "BY", "METRICS", "STATE", "NOTE"]
    assert [step for step in found if step.isdecimal()] == ["100", "20", "10"]  # by number, newest first
    assert "2 x fsdp" in found["20"] and "train_loss 1.250, validation_loss 0.2500" in found["20"]
    assert found["20"].split()[1] == "2" and found["20"].endswith("best")
    # Metrics of step 90 are none of step 100.
    assert found["100"].split()[1] == "–" and "0.375" not in found["100"] and found["100"].endswith("newest, finished")
    assert " ago " in found["10"]


def test_list_of_every_state(program: Program, three, flip: Callable[..., None]) -> None:
    (three.save(30, TENSORS) / "state.json").unlink()
    flip(three.save(40, TENSORS) / "manifest.json", 100)
    with (three.save(50, TENSORS) / "state.json").open("ab") as stream:
        stream.write(b"more")
    flip(three.save(60) / "rank-00000-of-00001.safetensors")
    three.store.quarantine(60, DamagedError("\x1b[31mred", file="x"))
    (three.folder / "step-00000070").mkdir()
    (three.folder / "step-00000070" / "rank-00000-of-00001.safetensors").write_bytes(b"1234")
    (listed,) = program.json("list", three.folder)
    assert listed["training"] == "" and listed["at_work"] is None
    found = {row["step"]: row for row in listed["rows"]}
    assert {step: row["state"] for step, row in found.items()} == {
        **{10: "good", 20: "good", 30: "incomplete", 40: "damaged", 50: "damaged", 60: "quarantined"},
        **{70: "incomplete", 100: "good"},
    }
    assert found[30]["problem"] == "1 of 5 files are missing (state.json)"
    assert "hash" in found[40]["problem"] and "bytes instead of" in found[50]["problem"]
    assert found[70]["problem"].startswith("no manifest.json") and found[70]["bytes"] == 4
    assert [step for step, row in found.items() if row["newest"]] == [100]
    text = program("list", three.folder)
    assert "\x1b" not in text and "\ufffd[31mred" in text


def test_list_of_several_trainings_and_of_one_that_has_none_yet(program: Program, three, made) -> None:
    other = type(made)(three.folder.parent / "9a9b")
    other.save(5)
    listed = program.json("list", three.folder.parent)
    assert [each["training"] for each in listed] == ["1f2e-3d4c", "9a9b"]
    assert "holds the checkpoints of 2 trainings: 1f2e-3d4c, 9a9b" in program.error("show", three.folder.parent)
    assert program.json("show", three.folder.parent, "--training", "9a")["step"] == 5
    assert "Did you mean '9a9b'?" in program.error("show", three.folder.parent, "--training", "9a9c")
    assert program("verify", three.folder.parent).count("good") == 2
    # An agent keeps the names of a training that was removed.
    for path in [*other.folder.rglob("*.*"), other.folder / RECORD]:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"") if not path.is_dir() else None
    assert [each["training"] for each in program.json("list", three.folder.parent)] == ["1f2e-3d4c"]


def test_trainings_have_short_distinct_names(program: Program, made, tmp_path: Path) -> None:
    data = "0123456789abcdef" * 4
    for step, fields in enumerate(("aaaabbbbccccdddd", "aaaabbbb0000dddd", "aaaabbbb0000dddd-2"), 5):
        type(made)(tmp_path / "place" / f"{data}-{fields}").save(step)
    names = ["0123456789ab-aaaabbbb0000", "0123456789ab-aaaabbbb0000-2", "0123456789ab-aaaabbbbcccc"]
    assert ", ".join(names) in program.error("export", tmp_path / "place", "--out", tmp_path / "m")
    said = program("list", tmp_path / "place")
    for name, step in zip(names, (6, 7, 5), strict=True):
        assert f"--training {name}\n" in said
        assert program.json("show", tmp_path / "place", "--training", name)["step"] == step
        assert f"step {step} of {name}: good" in program("verify", tmp_path / "place")
    assert program.json("show", tmp_path / "place", "--training", f"{data}-aaaabbbbc")["step"] == 5
    assert "3 trainings" in program.error("show", tmp_path / "place", "--training", "01234")


def test_a_running_training_is_listed_and_not_disturbed(program: Program, three, flip: Callable[..., None]) -> None:
    flip(three.folder / "step-00000010" / "state.json")
    with Lock(three.store.place, "digits", beat_s=60):
        (three.folder / "step-00000110").mkdir()
        (three.folder / "step-00000110" / "rank-00000-of-00001.safetensors").write_bytes(b"half")
        before = three.files()
        text = program("list", three.folder)
        assert f"(at work: digits, host {socket.gethostname()}, process {os.getpid()}, since " in text
        assert "no manifest.json yet; a training is at work here" in rows(text)["110"]
        program("show", three.folder)
        program("verify", three.folder, "--all", code=1)
        assert three.files() == before


def test_retention_may_be_quicker_than_a_list(program: Program, three, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there when the place was listed is gone when its manifest is read."""
    names = FolderPlace.names

    def listed_and_then_removed(self: FolderPlace, below: str = "") -> dict[str, int]:
        found = names(self, below)
        (self.root / "step-00000010" / "manifest.json").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(FolderPlace, "names", listed_and_then_removed)
    assert [row["step"] for row in program.json("list", three.folder)[0]["rows"]] == [100, 20]


def test_an_agent_that_is_behind(program: Program, made) -> None:
    for step in (10, 20):
        folder = made.save(step)
        for path in list(folder.iterdir()):
            if step == 10 or path.name != "manifest.json":
                (folder / f"{path.name}.sagemaker-uploaded").touch()
    (listed,) = program.json("list", made.folder)
    assert [(each["step"], each["waiting"]) for each in listed["behind"]] == [(20, ["step-00000020/manifest.json"])]
    assert listed["rows"][0]["files"] == 4  # marks are no files of a checkpoint
    assert "is behind: 1 of 4 files" in program("list", made.folder)


def test_lag_of_a_place_that_knows_when_files_arrived(three) -> None:
    place = three.store.place
    saved = listing.seconds_of("2026-11-20T12:00:00+00:00")
    assert saved is not None

    class Arriving(type(place)):
        def arrived_at(self, folder: str) -> dict[str, float]:
            return dict.fromkeys(self.names(folder), saved + 90)

    assert listing.list_training(Training("", Store(Arriving(place.root)))).arrival_seconds == 90
    assert listing.list_training(Training("", three.store)).arrival_seconds is None
