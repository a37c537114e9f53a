"""What the program prints and how it ends, on checkpoints written by hand."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from drivetrain.training_scripts import checkpoints
from drivetrain.training_scripts.checkpointing.inspection import listing
from drivetrain.training_scripts.checkpointing.inspection.trainings import Training
from drivetrain.training_scripts.checkpointing.lock import Lock
from drivetrain.training_scripts.checkpointing.manifest import DamagedError
from drivetrain.training_scripts.checkpointing.places import open_place
from drivetrain.training_scripts.checkpointing.places.folder import FolderPlace
from drivetrain.training_scripts.checkpointing.retention import Retention
from drivetrain.training_scripts.checkpointing.store import Store

WEIGHT = [float(n) for n in range(12)]
AVERAGE = [n + 0.5 for n in WEIGHT]
# By columns over two ranks; by rows over two ranks; and what is whole on one.
TENSORS = {
    "model/0.weight": (WEIGHT, (3, 4), [((0, 0), (3, 1)), ((0, 1), (3, 3))]),
    "model/0.running_mean": ([7.0], (1,), [((0,), (1,))]),
    "average/0.weight": (AVERAGE, (3, 4), [((0, 0), (2, 4)), ((2, 0), (1, 4))]),
    "best/0.weight": ([9.0] * 12, (3, 4), [((0, 0), (3, 4))]),
    "best/0.running_mean": ([8.0], (1,), [((0,), (1,))]),
    "optimizer/0.weight//step": ([3.0], (), [((), ())]),
}
HISTORY = [{"epoch": 1, "step": 10, "validation_loss": 0.5}, {"epoch": 2, "step": 20, "validation_loss": 0.25}]


class Program:
    """`python -m drivetrain.training_scripts.checkpoints ...` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.err = ""

    def __call__(self, *arguments: object, code: int = 0) -> str:
        try:
            found = checkpoints.run([str(argument) for argument in arguments])
        except SystemExit as ended:
            found = ended.code
        out, self.err = self._capsys.readouterr()
        assert found == code, (found, out, self.err)
        return out

    def json(self, *arguments: object, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))

    def error(self, *arguments: object, code: int = 2) -> str:
        assert self(*arguments, code=code) == ""
        assert self.err.startswith("error: ") and len(self.err.splitlines()) == 1, self.err
        return self.err


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str]) -> Program:
    return Program(capsys)


@pytest.fixture
def three(made):
    """Three good checkpoints; the second has the best loss."""
    made.save(10, TENSORS, metrics={"train_loss": 1.5, "validation_loss": 0.5, "epoch": 1, "step": 10})
    made.save(20, TENSORS, metrics={"train_loss": 1.25, "validation_loss": 0.25, "epoch": 2, "step": 20})
    made.save(100, TENSORS, metrics={"validation_loss": 0.375, "epoch": 2, "step": 90}, finished=True)
    return made


def rows(text: str) -> dict[str, str]:
    """The lines of a table by their first word."""
    return {line.split()[0]: line for line in text.splitlines() if line.split()}


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
    assert found[30]["problem"] == "1 of 5 files are not there (state.json)"
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


def test_a_run_at_work_is_seen_and_not_disturbed(program: Program, three, flip: Callable[..., None]) -> None:
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


def test_a_quarantine_waits_for_whoever_is_at_work(
    program: Program, three, flip: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drivetrain.training_scripts.checkpointing.lock.PATIENCE_S", 0.1)
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


def test_what_is_read_is_held_against_retention(program: Program, three, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_show(program: Program, made) -> None:
    made.save(20, TENSORS, metrics=HISTORY[1], state={"history": HISTORY}, consumed=640)
    made.store.place.replace(
        "attempts/00001.json",
        b'{"number": 1, "started": 100.0, "time": 160.0, "first_step": 0, "step": 20, "saves": 2, "ended": null}',
    )
    text = program("show", made.folder)
    found = rows(text)
    assert text.startswith("step 20  ")
    assert found["model/0.weight"].split() == ["model/0.weight", "float32", "3", "x", "4", "2"]
    assert found["optimizer/0.weight//step"].split() == ["optimizer/0.weight//step", "float32", "a", "number", "1"]
    assert "state.json" in found and "consumed" in found
    assert "epoch 2, step 20, validation_loss 0.2500" in text
    assert found["1"].split()[-4:] == ["interrupted,", "or", "at", "work"] and "0 to 20" in found["1"]
    shown = program.json("show", made.folder / "step-00000020")
    assert shown["tensors"][0]["parts"] == 2 and shown["attempts"][0]["saves"] == 2
    assert shown["metrics"] == {"validation_loss": 0.25} and shown["values"]["consumed"] == 640


def test_show_without_an_index(program: Program, made) -> None:
    """Another framework's checkpoint, committed through the store."""
    made.save(3, index=False)
    assert program.json("show", made.folder, "3")["tensors"] == []
    assert "another program than our training wrote it" in program.error(
        "export", made.folder, "--out", "w.safetensors"
    )


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


def test_an_index_that_lies_is_damage(program: Program, made) -> None:
    """Checksums hold what was written; what was written may still make no sense."""
    tensors = {"model/w": ([1.0, 2.0], (2,), [((0,), (1,))])}
    made.save(1, tensors)
    assert "index.json lacks a part of model/w: 1 of 2 numbers" in program("verify", made.folder, code=1)


def test_verify_of_a_missing_file_is_incomplete(program: Program, three) -> None:
    (three.folder / "step-00000100" / "state.json").unlink()
    assert program.json("verify", three.folder, code=1)[0]["state"] == "incomplete"


def test_export_takes_the_average(program: Program, made, tmp_path: Path) -> None:
    made.save(20, TENSORS)
    out = tmp_path / "weights.safetensors"
    assert "the moving average in the parameters' place, 2 tensors" in program("export", made.folder, "--out", out)
    assert _tensors(out) == {"0.weight": AVERAGE, "0.running_mean": [7.0]}
    program("export", made.folder, "--out", out, "--no-average", "--force")
    assert _tensors(out) == {"0.weight": WEIGHT, "0.running_mean": [7.0]}
    program("export", made.folder, "--out", out, "--best", "--force")
    assert _tensors(out) == {"0.weight": [9.0] * 12, "0.running_mean": [8.0]}
    program("export", made.folder, "--out", out, "--optimizer", "--force")
    assert _tensors(out).keys() == TENSORS.keys()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "weights.safetensors"]


def test_export_of_a_model_folder(program: Program, made, tmp_path: Path) -> None:
    made.save(20, TENSORS, state={"history": HISTORY, "watch": {"best_step": 10}})
    out = tmp_path / "model"
    done = program.json("export", made.folder, "--out", out)
    described = json.loads((out / "model.json").read_text())
    assert described["weights"] == {"file": "model.safetensors", "bytes": done["bytes"], "sha256": done["sha256"]}
    assert described["recipe"] == "digits_cnn" and described["format"] == 1
    assert (described["step"], described["metrics"]) == (20, {"validation_loss": 0.25})
    program("export", made.folder, "--out", out, "--best", "--force")
    described = json.loads((out / "model.json").read_text())
    assert (described["step"], described["metrics"]) == (10, {"validation_loss": 0.5})
    # The average was validated, and not the weights.
    program("export", made.folder, "--out", out, "--no-average", "--force")
    assert json.loads((out / "model.json").read_text())["metrics"] == {}
    assert sorted(path.name for path in out.iterdir()) == ["model.json", "model.safetensors"]


def _tensors(path: Path) -> dict[str, list[float]]:
    with safe_open(path, "numpy") as file:
        return {name: file.get_tensor(name).ravel().tolist() for name in file.keys()}  # noqa: SIM118


def test_export_writes_over_nothing(program: Program, made, tmp_path: Path, flip: Callable[..., None]) -> None:
    folder = made.save(20, TENSORS)
    file, model, own = tmp_path / "w.safetensors", tmp_path / "model", tmp_path / "own"
    for path in (file, model):
        program("export", made.folder, "--out", path)
        assert "--force" in program.error("export", made.folder, "--out", path)
    own.mkdir()
    (own / "thesis.tex").touch()
    assert "thesis.tex" in program.error("export", made.folder, "--out", own, "--force")
    assert "is a folder" in program.error("export", made.folder, "--out", _folder(tmp_path / "x.safetensors"))
    assert "there is no folder" in program.error("export", made.folder, "--out", tmp_path / "no" / "w.safetensors")
    assert "is a file" in program.error("export", made.folder, "--out", folder / "state.json")
    before = {path.name: path.read_bytes() for path in (file, *model.iterdir())}
    # What is damaged is not exported, and what is there stays.
    flip(folder / "rank-00001-of-00002.safetensors")
    for path in (file, model):
        assert "rank-00001" in program.error("export", made.folder, "--out", path, "--force", code=1)
    assert before == {path.name: path.read_bytes() for path in (file, *model.iterdir())}
    assert not list(tmp_path.glob(".*"))


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_full_disk_leaves_what_was_there(
    program: Program, made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.save(20, TENSORS)
    model = tmp_path / "model"
    program("export", made.folder, "--out", model)
    before = {path.name: path.read_bytes() for path in model.iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("drivetrain.training_scripts.checkpointing.inspection.export.os.fsync", full)
    assert "No space left" in program.error("export", made.folder, "--out", model, "--force")
    assert "No space left" in program.error("export", made.folder, "--out", tmp_path / "other")
    assert before == {path.name: path.read_bytes() for path in model.iterdir()}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "model"]


def test_export_of_what_does_not_say_what_it_is(program: Program, made, tmp_path: Path) -> None:
    made.save(1, TENSORS, state={"description": None})
    assert "--out NAME.safetensors" in program.error("export", made.folder, "--out", tmp_path / "model")
    assert "writes one file" in program.error("export", made.folder, "--out", tmp_path / "model", "--optimizer")
    made.save(2, {"w": ([1.0], (1,), [((0,), (1,))])})
    assert "Take all with --optimizer" in program.error("export", made.folder, "--out", tmp_path / "w.safetensors")
    made.save(3)
    assert "keep_best" in program.error("export", made.folder, "--best", "--out", tmp_path / "w.safetensors")


def test_newest_is_the_newest_that_is_whole(program: Program, three) -> None:
    (three.save(200, TENSORS) / "state.json").unlink()
    assert program.json("show", three.folder)["step"] == 100
    assert program.err.startswith("note: step 200 is incomplete (1 of 5 files are not there (state.json)); the newest")
    assert program.json("show", three.folder, "best")["step"] == 20
    assert program.json("verify", three.folder, code=1)[0]["step"] == 200


def test_a_step_that_is_not_there(program: Program, three) -> None:
    said = program.error("show", three.folder, 98)
    assert "no checkpoint of step 98" in said and "The closest is 100. There are: 100, 20, 10." in said
    assert "'last' is no checkpoint" in program.error("show", three.folder, "last")
    assert "Give one of the two" in program.error("verify", three.folder, "10", "--all")
    assert program.json("show", three.folder, "step-00000010")["step"] == 10


def test_progress_without_a_terminal_is_silent_and_short(program: Program, three) -> None:
    program("verify", three.folder, "--all")
    assert program.err == ""


def test_nothing_but_python_is_loaded(three) -> None:
    """It starts in a moment, and in a container without torch."""
    code = (
        "import sys; from drivetrain.training_scripts.checkpoints import run; code = run(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    out = three.folder.parent / "w.safetensors"
    for arguments in (["list"], ["show"], ["verify"], ["export", "--out", str(out)]):
        command = [sys.executable, "-c", code, arguments[0], str(three.folder), *arguments[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert not loaded & {"torch", "numpy", "safetensors", "pickle", "awscrt", "boto3", "asyncio"}, arguments
