"""A pipeline that compares before it registers, run on this machine: with a champion, without one, and where one cannot
be compared with.

The models are trained for real, and small; every other step is the flagship's own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drivetrain.authoring.loading import load
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.package_mapping import request_of
from drivetrain.registry.registry import ModelVersion
from drivetrain.run_store.events import ExecutionFinished
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner

GROUP = "retraining"
FEW = ("epochs=1", "processes=1", "min_accuracy=0")

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Ran:
    """A run's end, its steps, and what compare wrote."""

    summary: ExecutionFinished
    statuses: dict[str, str]
    folder: Path

    @property
    def decision(self) -> Path:
        return self.folder / "compare" / self.summary.execution / "decision"

    @property
    def decided(self) -> dict[str, Any]:
        return json.loads((self.decision / "decision.json").read_bytes())

    @property
    def page(self) -> str:
        return (self.decision / "decision.md").read_text(encoding="utf-8")


class Place:
    """A home, and the flagship in it."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)

    def run(self, *settings: str) -> Ran:
        loaded = load("retraining", overrides=[*FEW, *settings])
        compiled = compile_pipeline(loaded.pipeline, here=True)
        summary = Runner(self.home).start(compiled.text, {}, Options(pipeline=GROUP), assets=compiled.assets)
        with Ledger(self.home) as ledger:
            statuses = {row.name: row.status for row in ledger.steps(summary.execution)}
        outputs = self.home.objects / "drivetrain-local" / "pipelines" / GROUP / "steps"
        return Ran(summary, statuses, outputs)

    @property
    def registry(self) -> LocalRegistry:
        return LocalRegistry(self.home.ledger)

    def versions(self) -> list[ModelVersion]:
        return self.registry.versions(GROUP)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Ran]:
    place = Place(tmp_path_factory.mktemp("first") / "home")
    return place, place.run("seed=7")


@pytest.fixture(scope="module")
def second(first: tuple[Place, Ran], tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Ran]:
    """A run against the first one's model, which stays the only version. Its home has both trainings in its cache: no
    other test trains these again."""
    place = Place(tmp_path_factory.mktemp("second") / "home")
    shutil.copytree(first[0].home.root, place.home.root)
    place.registry.set_status(GROUP, 1, "Approved")
    ran = place.run("seed=8")
    place.registry.set_status(GROUP, 1, "PendingManualApproval")
    assert ran.statuses["train"] == "Succeeded" and len(place.versions()) == 1
    return place, ran


@pytest.fixture
def copied(second: tuple[Place, Ran], tmp_path: Path) -> Callable[[], Place]:
    """The home after both runs, to do with what one wants."""

    def copy() -> Place:
        shutil.copytree(second[0].home.root, tmp_path / "home")
        return Place(tmp_path / "home")

    return copy


def test_without_a_champion_the_floors_decide(first: tuple[Place, Ran]) -> None:
    place, ran = first
    assert ran.summary.status == "Succeeded", ran.summary.reason
    assert ran.statuses["register-model"] == "Succeeded" and ran.statuses["stop"] == "NotExecuted"
    assert (ran.decided["verdict"], ran.decided["champion"]) == ("register", None)
    (report,) = ran.folder.glob("evaluate/*/report/evaluation.json")
    shared = json.loads(report.read_bytes())["data"]["shared_keys"]
    assert shared["keys"] == 0 and shared["compared"] > 0, "by the hashes that the training carried into model.json"
    assert ran.page.startswith("# Register the candidate in retraining: there is no champion yet\n")
    (version,) = place.versions()
    assert version.content_hash == ran.decided["candidate"]["content_hash"]
    properties = request_of(version.record)["CustomerMetadataProperties"]
    assert properties["drivetrain-content-hash"] == version.content_hash, "as it will be found on SageMaker"
    assert properties["drivetrain-lineage-test-data"] == ran.decided["data"]["content_hash"]
    for name, value in version.lineage.items():
        assert value != "unknown" and properties.get(f"drivetrain-lineage-{name}", value) == value
    assert {"data", "test-data", "config", "code", "execution"} <= set(version.lineage)
    assert version.lineage["execution"].endswith(ran.summary.execution)
    assert version.artifact.endswith("/model.tar.gz")
    assert version.decision is not None and version.decision["verdict"] == "register"


@pytest.mark.nightly
def test_below_a_floor_the_run_fails_and_says_why(copied: Callable[[], Place]) -> None:
    place = copied()
    ran = place.run("seed=8", "min_accuracy=1.0")
    assert ran.summary.status == "Failed" and ran.summary.reason is not None
    assert "at least 1 is required" in ran.summary.reason
    assert ran.decided["verdict"] == "below floors" and len(place.versions()) == 1


def test_with_a_champion(copied: Callable[[], Place]) -> None:
    place = copied()
    assert place.run("seed=7").decided["verdict"] == "already registered"
    (version,) = place.versions()
    place.registry.set_status(GROUP, version.version, "Approved")
    # The champion has seen each digit once. This one cannot but be better:
    better = place.run("seed=7", "epochs=8")
    decided = better.decided
    assert decided["verdict"] == "register" and better.statuses["register-model"] == "Succeeded"
    assert decided["champion"]["version"] == 1 and decided["champion"]["content_hash"] == version.content_hash
    assert decided["difference"]["low"] > 0 and decided["difference"]["counts"]["won"] > 0
    assert [each.version for each in place.versions()] == [2, 1]
    # ... and now the other way round: the first one's steps come from the cache, but not the comparison.
    place.registry.set_status(GROUP, 2, "Approved")
    worse = place.run("seed=8")
    assert worse.summary.status == "Succeeded", worse.summary.reason
    assert worse.decided["verdict"] == "keep champion" and worse.decided["difference"]["high"] < 0
    assert (worse.statuses["register-model"], worse.statuses["stop"]) == ("NotExecuted", "NotExecuted")
    assert worse.page.startswith("# Keep version 2 of retraining\n")
    again = place.run("seed=8")
    assert again.statuses == {**worse.statuses, "prepare": "Cached", "train": "Cached", "evaluate": "Cached"}
    assert {**again.decided, "why": ""} == {**worse.decided, "why": ""}, "the same models, compared anew"
    # A permissive rule lets the worse one in.
    assert place.run("seed=8", "rule=not_worse", "margin=0.9").decided["verdict"] == "register"


def test_the_champion_gets_the_same_digits_as_in_its_own_run(
    first: tuple[Place, Ran], second: tuple[Place, Ran]
) -> None:
    theirs = second[1].decided["champion"]["metrics"]
    assert theirs == first[1].decided["candidate"]["metrics"]


def test_a_missing_or_unloadable_champion_is_an_error(copied: Callable[[], Place]) -> None:
    place = copied()
    place.registry.set_status(GROUP, 1, "Approved")
    archive = place.home.objects / place.versions()[0].artifact.removeprefix("s3://")
    assert content_hash(archive) == place.versions()[0].content_hash
    hidden = archive.rename(archive.with_name("hidden"))
    gone = place.run("seed=8")
    assert gone.summary.status == "Failed" and gone.statuses["compare"] == "Failed"
    assert "the champion, version 1 of retraining, cannot be compared with: there is nothing at s3://" in str(
        gone.summary.reason
    )
    hidden.rename(archive)
    archive.write_bytes(b"no archive")
    damaged = place.run("seed=8")
    assert "cannot be compared with" in str(damaged.summary.reason)
    assert len(place.versions()) == 1


def test_an_unavailable_registry_is_an_error(copied: Callable[[], Place]) -> None:
    """The database of the runs is that of the models; so a table of another shape stands for one that is broken."""
    import sqlite3

    place = copied()
    with sqlite3.connect(place.home.ledger) as database:
        database.execute("ALTER TABLE model_versions RENAME COLUMN content_hash TO something_else")
    ran = place.run("seed=8")
    assert ran.summary.status == "Failed" and ran.statuses["compare"] == "Failed"
    assert "holds tables that are not this registry's" in str(ran.summary.reason)
