"""`drivetrain health` and `drivetrain attach`: which training is meant. (What is said of it: the program's tests.)"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli.training.health import recorded
from drivetrain.run_store.home import Home
from drivetrain.run_store.writer import LedgerWriter

ARGUMENTS = {"OutputDataConfig": {"S3OutputPath": "s3://bucket/out"}}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A run with a training that handed on what it recorded, and one that failed."""
    made = Home(tmp_path / "home")
    made.create()
    writer = LedgerWriter(made)
    steps = [("train", "Training", ""), ("again", "Training", ""), ("look", "Processing", "")]
    writer.begin("e-1", "nightly", definition_hash="d", request_hash="r", parameters={}, steps=steps)
    number = writer.start_step("e-1", "train", arguments=ARGUMENTS)
    writer.publish(
        "e-1", "train", number, response={"TrainingJobName": "job"}, value=None, moves=[], artifacts=[], objects=[]
    )
    writer.finish_step("e-1", "train", "Succeeded", number=number)
    place = made.objects / "bucket/out/job/output"
    place.mkdir(parents=True)
    with tarfile.open(place / "output.tar.gz", "w:gz") as archive:
        for name in ("health/records.jsonl", "health/flight/rank-00000.bin", "history.json", "../health/evil"):
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
    return made


def test_a_runs_training_is_unpacked(home: Home) -> None:
    with recorded("latest", None, home.root) as folder:
        files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        assert files == ["health/flight/rank-00000.bin", "health/records.jsonl"]
    assert not folder.exists()


def test_files_of_a_failed_training_are_read(home: Home) -> None:
    left = home.run("e-1") / "again/attempt-1/hosts/algo-1/opt/ml/output/data/health"
    left.mkdir(parents=True)
    (left / "records.jsonl").write_text("{}")
    with recorded("e-1", "again", home.root) as folder:
        assert folder == left
    with (
        pytest.raises(UserError, match=r"2 steps of e-1 were trained\. Name one by --step"),
        recorded("e-1", None, home.root),
    ):
        pass


def test_files_of_a_scripts_smdebug_hook_are_found(home: Home) -> None:
    """Unpacked of a training that has ended, in its place of one that has not."""
    saved = ("collections/000000000/w_collections.json", "index/000000000/000000000000_w.json")
    others = ("model.bin", "tensors/training_job_end.ts", "../index/000000000/evil.json")
    with tarfile.open(home.objects / "bucket/out/job/output/output.tar.gz", "w:gz") as archive:
        for name in (*(f"tensors/{each}" for each in saved), *others):
            archive.addfile(tarfile.TarInfo(name))
    with recorded("e-1", "train", home.root) as folder:
        files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert files == {f"tensors/{each}" for each in saved}
    left = home.run("e-1") / "again/attempt-1/hosts/algo-1/opt/ml/output/data/tensors"
    (left / saved[0]).parent.mkdir(parents=True)
    (left / saved[0]).write_text("{}")
    with recorded("e-1", "again", home.root) as folder:
        assert folder == left


@pytest.mark.parametrize(
    ("what", "step", "says"),
    [
        ("e-1", "look", "Step 'look' of e-1 has recorded nothing of its health"),
        ("./nowhere", None, "./nowhere is no folder"),
        (".", "train", "--step names a step of a run, and . is a folder"),
        ("other", None, "No execution 'other'"),
    ],
)
def test_missing_runs_and_steps_are_refused(what: str, step: str | None, says: str, home: Home) -> None:
    with pytest.raises(UserError) as caught, recorded(what, step, home.root):
        pass
    assert str(caught.value).startswith(says)


def test_a_run_without_processes_cannot_be_attached_to(drivetrain, home: Home) -> None:
    LedgerWriter(home).finish("e-1", "Succeeded", None)
    assert "Run e-1 has no process on this machine: it has ended" in drivetrain.error("attach", "--home", home.root)


def test_the_program_gets_the_requested_options(drivetrain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from drivetrain.cli.training import checkpoints

    asked: list[tuple[list[str], str]] = []

    def run_program(arguments: list[str], program: str) -> int:
        asked.append((arguments, program))
        return 0

    monkeypatch.setattr(checkpoints, "run_program", run_program)
    rules = json.dumps({"overtraining": "off"})
    drivetrain("health", "replay", tmp_path, "--rules", rules, "--json")
    drivetrain("health", "show", tmp_path, "--steps", "5")
    program = "drivetrain.training_scripts.health"
    assert asked == [
        (["replay", f"--rules={rules}", "--json", "--", str(tmp_path)], program),
        (["show", "--steps=5", "--", str(tmp_path)], program),
    ]
