"""`drivetrain checkpoints`: which folder is meant, and the real program on it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from drivetrain.cli import main
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest
from drivetrain.training.checkpointing.store.store import Store


def training(name: str, uri: str | None) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "AlgorithmSpecification": {"TrainingImage": "somebody-elses-image", "TrainingInputMode": "File"},
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/models"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "RoleArn": "arn:aws:iam::000000000000:role/r",
    }
    if uri is not None:
        arguments["CheckpointConfig"] = {"S3Uri": uri, "LocalPath": "/opt/ml/checkpoints"}
    return {"Name": name, "Type": "Training", "Arguments": arguments}


@pytest.fixture
def run(drivetrain):
    """Run a pipeline of stubbed trainings with these places for their checkpoints."""

    def call(**places: str | None) -> None:
        steps = [training(name, uri) for name, uri in places.items()]
        file = drivetrain.write("nightly.json", {"Version": "2020-12-01", "Parameters": [], "Steps": steps})
        stub = {"ModelArtifacts": {"S3ModelArtifacts": "s3://bucket/models/m/model.tar.gz"}}
        stubs = [f"--stub={name}={drivetrain.write(f'{name}.stub.json', stub)}" for name in places]
        drivetrain("run", "--definition", file, "--home", drivetrain.home, *stubs)

    return call


def save(folder: Path, *steps: int) -> Path:
    """Small checkpoints in a training's folder."""
    store = Store(open_place(folder))
    for step in steps:
        checksum = store.place.write(f"{store.begin(step)}/weights", b"1234")
        store.commit(Manifest(step=step, files=(FileEntry("weights", 4, checksum),)))
    return folder


@pytest.fixture
def capsys(capfd: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    """What the program says goes past Python's own stdout."""
    return capfd


class Called:
    """`drivetrain checkpoints` with the home."""

    def __init__(self, drivetrain: Any, capfd: pytest.CaptureFixture[str]) -> None:
        self._drivetrain, self._capfd = drivetrain, capfd
        self.out = self.err = ""

    def __call__(self, *arguments: object, code: int = 0, home: bool = True) -> str:
        given = [*map(str, arguments), *(["--home", str(self._drivetrain.home)] if home else [])]
        found = main.run(["checkpoints", *given])
        self.out, self.err = self._capfd.readouterr()
        assert found == code, (found, self.out, self.err)
        return self.out

    def error(self, *arguments: object) -> str:
        self(*arguments, code=2)
        assert self.err.startswith("error: ") and len(self.err.splitlines()) <= 3 and "Traceback" not in self.err
        return self.err


@pytest.fixture
def checkpoints(drivetrain, capfd: pytest.CaptureFixture[str]) -> Called:
    return Called(drivetrain, capfd)


@pytest.mark.slow
def test_of_the_newest_run(run, checkpoints: Called, drivetrain) -> None:
    run(train="s3://bucket/runs/checkpoints/train/")
    place = drivetrain.home / "s3/bucket/runs/checkpoints/train"
    assert str(place) in checkpoints.error("list")  # it has kept none
    save(place / "1f2e", 10, 20)
    (listed,) = json.loads(checkpoints("list", "--json"))
    assert listed["place"] == str(place / "1f2e") and [row["step"] for row in listed["rows"]] == [20, 10]
    assert checkpoints("list").startswith(str(place / "1f2e"))
    for arguments in (["verify"], ["verify", "latest"], ["verify", "latest", "newest"]):
        assert checkpoints(*arguments).startswith("step 20 of 1f2e: good")
    assert json.loads(checkpoints("show", "latest", "10", "--step", "train", "--json"))["step"] == 10


def test_several_steps_keep_checkpoints(run, checkpoints: Called, drivetrain) -> None:
    run(first="s3://bucket/first/", plain=None, second="s3://bucket/second/")
    save(drivetrain.home / "s3/bucket/second/1f2e", 7)
    assert "2 steps of" in checkpoints.error("list") and "first, second" in checkpoints.err
    assert "7 " in checkpoints("list", "latest", "--step", "second")
    assert "Step 'plain' of" in checkpoints.error("list", "--step", "plain")
    assert "keeps no checkpoints" in checkpoints.err
    assert "Did you mean 'second'?" in checkpoints.error("list", "--step", "secnd")


def test_a_run_means_its_own_training(run, checkpoints: Called, drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs share the place; the journal beside the attempts says which training each was at."""
    from drivetrain.run_store.reader import Ledger
    from drivetrain.targets.sagemaker.run.interruption_simulation.journal import Journal

    place, data = drivetrain.home / "s3/bucket/shared", "7" * 64
    monkeypatch.setattr("drivetrain.cli.training.checkpoints.run_program", lambda given: asked.append(given))
    asked: list[list[str]] = []
    for fields in ("aaaa" * 4, "aabb" * 4):
        run(train="s3://bucket/shared/")
        save(place / f"{data}-{fields}", 5)
        with Ledger(checkpoints_home(drivetrain)) as ledger:
            folder = ledger.home.run(ledger.executions()[0].id) / "train"
        journal = Journal(folder, job=1, spot=False, checkpoints="s3://bucket/shared/")
        journal.begin()
        journal.ended({"number": 1, "training": f"{data}-{fields}"})
    main.run(["checkpoints", "export", "latest", "--out", "m", "--home", str(drivetrain.home)])
    assert asked.pop()[-2:] == [str(place / f"{data}-{'aabb' * 4}"), "newest"]
    main.run(["checkpoints", "show", "latest", "--training", "7777", "--home", str(drivetrain.home)])
    assert asked.pop()[-2:] == [str(place), "newest"], "which one is named"
    shutil.rmtree(place / f"{data}-{'aabb' * 4}")
    main.run(["checkpoints", "list", "--home", str(drivetrain.home)])
    assert asked.pop()[-1] == str(place), "what is left of the place"


def test_checkpoints_of_a_cached_step_are_in_the_original_run(
    run, checkpoints: Called, drivetrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from drivetrain.run_store.reader import Ledger

    run(train="s3://bucket/earlier/")
    with Ledger(checkpoints_home(drivetrain)) as ledger:
        earlier = ledger.executions()[0].id
    run(train="s3://bucket/later/")
    save(drivetrain.home / "s3/bucket/earlier/1f2e", 3)
    steps = Ledger.steps
    monkeypatch.setattr(Ledger, "steps", lambda self, id: [replace(row, cache_of=earlier) for row in steps(self, id)])
    assert "bucket/earlier" in checkpoints("list")


def checkpoints_home(drivetrain: Any) -> Any:
    from drivetrain.run_store.home import Home

    return Home(drivetrain.home)


def test_a_run_without_any(run, checkpoints: Called) -> None:
    assert "Nothing has been run" in checkpoints.error("list")
    run(plain=None)
    assert "No step of" in checkpoints.error("list")
    assert "No execution 'nightl'" in checkpoints.error("list", "nightl")


def test_a_latest_run_without_checkpoints_suggests_the_newest_with_some(run, checkpoints: Called, drivetrain) -> None:
    from drivetrain.run_store.reader import Ledger

    run(train="s3://bucket/oldest/")
    run(train="s3://bucket/earlier/", plain=None)
    run(plain=None)
    with Ledger(checkpoints_home(drivetrain)) as ledger:
        latest, earlier, _ = (row.id for row in ledger.executions())
    said = " ".join(checkpoints.error("export", "--out", "m").split())
    assert f"No step of the latest run, {latest}, has kept" in said
    assert f"The newest run with some is {earlier}: give it" in said
    assert f"newest run with some is {earlier}" in " ".join(checkpoints.error("list", latest[:12]).split())
    assert "Give another run." in checkpoints.error("list", "--step", "plain")


@pytest.mark.slow
def test_a_place(checkpoints: Called, drivetrain) -> None:
    folder = save(drivetrain.folder / "build" / "checkpoints", 5)
    for where in (folder, "build/checkpoints", "./build/checkpoints", folder / "step-00000005"):
        assert "step 5: good" in checkpoints("verify", where, home=False)
    assert "names a step of a run" in checkpoints.error("list", folder, "--step", "train")
    dashed = save(drivetrain.folder / "-odd" / "ck", 1)
    assert "step 1: good" in checkpoints("verify", "--", f"-odd/{dashed.name}", home=False)


def test_the_exit_code_of_the_program_is_passed_on(checkpoints: Called, drivetrain) -> None:
    folder = save(drivetrain.folder / "ck", 5)
    (folder / "step-00000005" / "weights").write_bytes(b"1235")
    assert "weights has the checksum" in checkpoints("verify", folder, code=1)
    assert "moved to quarantine" in checkpoints("verify", folder, "--quarantine", code=1)
    assert "no checkpoint of step 6" in checkpoints.error("show", folder, "6")
    assert "--out" in checkpoints.error("export", folder)


def test_files_of_the_current_folder_are_not_imported(checkpoints: Called, drivetrain) -> None:
    drivetrain.write("json.py", "raise SystemExit('taken for a module')")
    folder = save(drivetrain.folder / "ck", 5)
    assert "step 5: good" in checkpoints("verify", folder)


@pytest.mark.parametrize(
    ("where", "message"),
    [("", "Nothing is given."), (" ", "Nothing is given."), ("s3://", "s3:// names no bucket."), ("s3:", "no bucket.")],
)
def test_an_empty_location_is_refused_in_one_line(checkpoints: Called, where: str, message: str) -> None:
    said = checkpoints.error("list", where)
    assert message in said and "s3://BUCKET/PREFIX" in said and len(said.splitlines()) == 1
