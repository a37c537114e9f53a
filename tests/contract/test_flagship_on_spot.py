"""The flagship on spot machines that are taken away: the model is that of an uninterrupted run, byte for byte."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from drivetrain.pipelines.loading import load
from drivetrain.pipelines.targets.local.events import Event, StepInterrupted, StepStarted
from drivetrain.pipelines.targets.local.home import Home
from drivetrain.pipelines.targets.local.ledger.reader import Ledger
from drivetrain.pipelines.targets.local.ledger.rows import StepRow
from drivetrain.pipelines.targets.local.options import Options
from drivetrain.pipelines.targets.local.rehearsal.interruptions import parse_all
from drivetrain.pipelines.targets.local.runner import Runner
from drivetrain.pipelines.targets.sagemaker.compile import compile_pipeline

SETTINGS = ["spot=true", "epochs=4", "min_accuracy=0", "processes=2"]


def run(folder: Path, *interruptions: str) -> tuple[StepRow, bytes, str, list[Event]]:
    """The training's row in the ledger, the bytes of its model, its history, and what was told."""
    home, events = Home(folder), list[Event]()
    compiled = compile_pipeline(load("retraining", overrides=SETTINGS).pipeline, wheels_optional=True)
    options = Options(pipeline="retraining", interruptions=parse_all(interruptions))
    summary = Runner(home, events.append).start(compiled.text, {}, options, assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    with Ledger(home) as ledger:
        row = ledger.step(summary.execution, "train")
    uri = str(row.response["ModelArtifacts"]["S3ModelArtifacts"])
    found: list[bytes] = []
    for archive, name in ((uri, "model.safetensors"), (uri.replace("model.tar.gz", "output.tar.gz"), "history.json")):
        with tarfile.open(home.objects / archive.removeprefix("s3://")) as opened:
            content = opened.extractfile(name)
            assert content is not None
            found.append(content.read())
    return row, found[0], found[1].decode(), events


@pytest.mark.slow
def test_two_interruptions_change_nothing(tmp_path: Path) -> None:
    alone, model, history, _ = run(tmp_path / "alone")
    assert "Drivetrain" not in alone.response
    row, interrupted, its_history, events = run(tmp_path / "spot", "train@step=27,notice=60s", "train@step=55,notice=0")
    assert interrupted == model and json.loads(its_history) == json.loads(history)
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
