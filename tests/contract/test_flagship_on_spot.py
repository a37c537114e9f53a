"""The flagship on spot machines that are taken away: the model is that of an uninterrupted run, byte for byte."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from drivetrain.assets.assets import Asset
from drivetrain.authoring.loading import load
from drivetrain.run_store.events import Event, StepInterrupted, StepStarted
from drivetrain.run_store.home import Home
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import parse_all
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from drivetrain.telling.content.from_ledger import run_facts
from drivetrain.telling.content.goodput import account
from drivetrain.telling.content.spot_savings import Prices, saving

SETTINGS = ["spot=true", "epochs=4", "min_accuracy=0", "processes=2"]


def compiled(*more: str) -> tuple[str, tuple[Asset, ...]]:
    built = compile_pipeline(load("retraining", overrides=[*SETTINGS, *more]).pipeline, here=True)
    return built.text, built.assets


def row_of(home: Home, execution: str) -> StepRun:
    with Ledger(home) as ledger:
        return ledger.step(execution, "train")


def results(home: Home, row: StepRun) -> tuple[bytes, Any]:
    """The bytes of a training's model, and its history."""
    uri = str(row.response["ModelArtifacts"]["S3ModelArtifacts"])
    found: list[bytes] = []
    for archive, name in ((uri, "model.safetensors"), (uri.replace("model.tar.gz", "output.tar.gz"), "history.json")):
        with tarfile.open(home.objects / archive.removeprefix("s3://")) as opened:
            content = opened.extractfile(name)
            assert content is not None
            found.append(content.read())
    return found[0], json.loads(found[1])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[StepRun, tuple[bytes, Any]]:
    """A run that nothing interrupts."""
    home = Home(tmp_path_factory.mktemp("alone"))
    text, assets = compiled()
    summary = Runner(home).start(text, {}, Options(pipeline="retraining"), assets=assets)
    assert summary.status == "Succeeded", summary.reason
    row = row_of(home, summary.execution)
    return row, results(home, row)


# (test_spot_page.py interrupts the flagship in the slow suite, and trials of tests/faults compare the bytes.)
@pytest.mark.nightly
def test_two_interruptions_change_nothing(tmp_path: Path, alone: tuple[StepRun, tuple[bytes, Any]]) -> None:
    assert alone[0].response["Drivetrain"]["interruptions"] == []
    home, events = Home(tmp_path), list[Event]()
    text, assets = compiled()
    options = Options(
        pipeline="retraining", interruptions=parse_all(["train@step=27,notice=60s", "train@step=55,notice=0"])
    )
    summary = Runner(home, events.append).start(text, {}, options, assets=assets)
    assert summary.status == "Succeeded", summary.reason
    row = row_of(home, summary.execution)
    assert results(home, row) == alone[1]
    assert [event.attempt for event in events if isinstance(event, StepStarted) and event.step == "train"] == [1]
    assert [event.at_step for event in events if isinstance(event, StepInterrupted)] == [27, 55]
    asked, killed = row.response["Drivetrain"]["interruptions"]
    # With notice the training saved the very step at which it was told, and the agent brought it home.
    assert (asked["at_step"], asked["resumed_step"], asked["steps_lost"]) == (27, 27, 0)
    assert killed["at_step"] == 55 and 27 <= killed["resumed_step"] == 55 - killed["steps_lost"]
    steps = [(one["first_step"], one["step"]) for one in row.response["Drivetrain"]["attempts"]]
    assert steps[:2] == [(0, 27), (27, 55)] and steps[2][0] == killed["resumed_step"] < steps[2][1]
    statuses = [one["Status"] for one in row.response["SecondaryStatusTransitions"]]
    assert statuses.count("Interrupted") == 2 and statuses.count("Training") == 3 and statuses[-1] == "Completed"


# The commands of docs/spot.md go this way too (test_spot_page.py), and test_rehearsals.py with programs of a moment.
@pytest.mark.nightly
def test_leaving_spot_machines_does_not_change_the_training(
    tmp_path: Path, alone: tuple[StepRun, tuple[bytes, Any]]
) -> None:
    home = Home(tmp_path)
    text, assets = compiled("max_interruptions=1")
    asked = parse_all(["train@step=27,notice=60s", "train@step=55,notice=0"])
    summary = Runner(home).start(text, {}, Options(pipeline="retraining", interruptions=asked), assets=assets)
    assert summary.status == "Failed" and summary.reason is not None
    assert "interrupted 2 times in a row, and max_interruptions=1" in summary.reason
    assert f"drivetrain runs resume {summary.execution} --set spot=false" in summary.reason
    text, assets = compiled("max_interruptions=1", "spot=false")
    again = Runner(home).resume(summary.execution, Options(pipeline="retraining"), text=text, assets=assets)
    assert again.status == "Succeeded", again.reason
    row = row_of(home, summary.execution)
    assert results(home, row) == alone[1]

    with Ledger(home) as ledger:
        (times,) = run_facts(ledger, summary.execution).job_times
    one, two, gave_up, last = times.attempts
    assert [start.spot for start in times.attempts] == [True, True, True, False] and times.spot
    assert (one.step, two.step, gave_up.step) == (27, 55, None) and not gave_up.took_steps
    told, killed = times.interruptions
    assert (told.start, told.at_step, told.steps_lost) == (1, 27, 0)
    assert (
        killed.start == 2 and killed.resumed_step == last.first_step and times.steps_lost == 55 - (last.first_step or 0)
    )
    spent, saved = account(times), saving(times, Prices(discount=0.7))
    assert spent is not None and spent.interruptions == 2 and 0 < spent.goodput < 1
    assert spent.starting == one.restart_seconds > 0
    assert last.started == gave_up.until, "nobody counts how long it was not resumed"
    assert spent.restarting > two.restart_seconds + last.restart_seconds + (gave_up.until - gave_up.started) - 0.01
    assert saved is not None and saved.on_demand == pytest.approx(last.until - last.started)
    assert saved.paid - saved.on_demand == pytest.approx(
        sum(start.until - start.started for start in (one, two, gave_up))
    )
