"""Nights that go on from the model that was approved before them, run for real on this machine."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from drivetrain import Cluster, Pipeline, register, step
from drivetrain.cli import main
from drivetrain.cli.models.compare import comparison, comparison_text
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train
from drivetrain.components.train_script import train_script
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.registry.registry import ModelVersion
from drivetrain.run_store.events import Event, StepFinished
from drivetrain.run_store.home import Home
from drivetrain.steps import FRESH_PARAMETER
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner

DIGITS = Path(__file__).parents[2] / "pipelines" / "data" / "digits.csv.gz"
SCRIPT = """
import os, pathlib
kept = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"]) / "nights.txt"
nights = int(kept.read_text()) + 1 if kept.exists() else 1
kept.write_text(str(nights))
pathlib.Path(os.environ["SM_MODEL_DIR"], "weights.txt").write_text(str(nights))
"""

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Night:
    """How its steps ended, and what they printed."""

    statuses: dict[str, str]
    logs: dict[str, str]

    def starts(self, name: str) -> str:
        (line,) = [line for line in self.logs[name].splitlines() if line.startswith("starts from: ")]
        return line.removeprefix("starts from: ")


class Place:
    def __init__(self, folder: Path, group: str) -> None:
        self.home, self.group, self.registry = Home(folder), group, LocalRegistry(Home(folder).ledger)

    def run(self, pipeline: Pipeline, source: Path | None = None, fresh: str = "no") -> Night:
        compiled = compile_pipeline(pipeline, source, here=True)
        events: list[Event] = []
        summary = Runner(self.home, events.append).start(
            compiled.text, {FRESH_PARAMETER: fresh}, Options(pipeline=pipeline.name), assets=compiled.assets
        )
        assert summary.status == "Succeeded", summary.reason
        statuses = {event.step: event.status for event in events if isinstance(event, StepFinished)}
        run = self.home.run(summary.execution)
        logs = {name: "".join(path.read_text() for path in (run / name).rglob("*.log")) for name in statuses}
        return Night(statuses, logs)

    def newest(self) -> ModelVersion:
        return self.registry.versions(self.group)[0]

    def decide(self, version: int, status: str) -> None:
        self.registry.set_status(self.group, version, status)


def nightly(rows: Path) -> Pipeline:
    data = step(prepare_data, name="prepare", raw=str(rows), key="id", label="label", test_percent=20)
    fit = step(
        train,
        train=data["train"],
        recipe_options='{"channels": 4, "hidden": 16}',
        epochs=1,
        continue_from="previous",
        cluster=Cluster(processes=1),
    )
    return Pipeline(name="nightly", steps=[data, fit, register(model=fit["model"], group="digits")])


def grown(folder: Path, rows: int) -> Path:
    path = folder / f"digits-{rows}.csv"
    path.write_bytes(b"\n".join(gzip.decompress(DIGITS.read_bytes()).splitlines()[: rows + 1]) + b"\n")
    return path


def test_three_nights_continue_each_other(tmp_path: Path) -> None:
    place = Place(tmp_path / "home", "digits")
    first = place.run(nightly(grown(tmp_path, 300)))
    assert "starts anew: digits has no approved version" in first.logs["train-previous"]
    assert first.starts("train") == "nothing (there is no earlier model)"
    place.decide(1, "Approved")

    second = place.run(nightly(grown(tmp_path, 400)))
    assert "continues digits version 1 (content " in second.logs["train-previous"]
    begun = second.starts("train")
    assert begun.startswith("digits version 1 at step ") and begun.endswith(", a new pass over other data")
    one, two = place.registry.version("digits", 1), place.registry.version("digits", 2)
    assert two.lineage["continues"] == one.content_hash and one.lineage["continues"] == "none"
    assert "Continues digits version 1 (content " in json.dumps(two.card)
    assert comparison(two, one)["continued"] == [2, 1]
    assert "The training of version 2 continued from version 1." in comparison_text(one, two)

    # A version that is not approved, or was rejected, is none that a night goes on from.
    again = place.run(nightly(grown(tmp_path, 400)))
    assert (again.statuses["train-continues"], again.statuses["train"]) == ("Cached", "Cached")
    place.decide(2, "Rejected")
    third = place.run(nightly(grown(tmp_path, 450)))
    assert third.starts("train").startswith("digits version 1 at step ")
    assert place.newest().version == 3


def test_a_script_continues_from_its_earlier_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows").write_text("rows")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(SCRIPT)

    def own() -> Pipeline:
        fit = step(
            train_script,
            name="fit",
            train=str(tmp_path / "data"),
            script="train.py",
            launcher="python",
            continue_from="previous",
        )
        return Pipeline(name="own", steps=[fit, register(model=fit["model"], group="own", approval="Approved")])

    place = Place(tmp_path / "home", "own")
    said: list[str] = []
    for _ in range(3):
        said.append(place.run(own(), tmp_path / "code").starts("fit"))
    assert said == [
        "nothing (there is no earlier model)",
        "the checkpoints of own version 1",
        "the checkpoints of own version 2",
    ]
    assert place.newest().lineage["continues"] == place.registry.version("own", 2).content_hash
    assert "Continues own version 2 (content " in json.dumps(place.newest().card)
    fresh = place.run(own(), tmp_path / "code", fresh="0a1b")
    assert "starts anew: --fresh" in fresh.logs["fit-previous"]
    assert fresh.starts("fit") == "nothing (--fresh)"


CLAIM = "deployment.targets.kubeflow.checkpoint_claim=kept"
ON_KUBEFLOW = """
from pathlib import Path

from drivetrain import Pipeline, Settings, register, step
from drivetrain.components.train_script import train_script


class Own(Settings):
    continue_from: str = "previous"


def own(settings: Own) -> Pipeline:
    fit = step(
        train_script,
        name="fit",
        train=str(Path(__file__).parent / "data"),
        script="train.py",
        launcher="python",
        continue_from=settings.continue_from,
    )
    return Pipeline(name="own", steps=[fit, register(model=fit["model"], group="own", approval="Approved")])
"""


def test_the_ir_continues_from_a_version_and_from_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows").write_text("rows")
    (tmp_path / "own.py").write_text(ON_KUBEFLOW)
    (tmp_path / "train.py").write_text(SCRIPT)
    home = ["--home", str(tmp_path / "home")]

    def started_from(continue_from: str = "previous") -> str:
        words = ["--target", "kubeflow", "--set", CLAIM, "--set", f"continue_from={continue_from}", "--quiet", *home]
        assert main.run(["run", str(tmp_path / "own.py"), *words]) == 0
        runs.append(capsys.readouterr().out.strip())
        assert main.run(["runs", "logs", "latest", "fit", *home]) == 0
        (line,) = re.findall(r"starts from: (.*)", capsys.readouterr().out)
        return line

    runs: list[str] = []
    assert started_from() == "nothing (there is no earlier model)"
    assert started_from() == "the checkpoints of own version 1"
    assert started_from(f"run:{runs[0]}") == "the checkpoints of own version 1"
    assert started_from(f"own:run:{runs[1]}") == "the checkpoints of own version 2"
