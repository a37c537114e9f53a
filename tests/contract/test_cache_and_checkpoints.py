"""The cache and the checkpoints together: an unchanged step hits; a repeated or longer training, or one of new data,
starts anew in a later run.

All of them share one checkpoint location, which is part of the cache's key and so may not hold anything of the data.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from drivetrain.authoring.loading import load
from drivetrain.run_store.events import Event, StepFinished
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner

DIGITS = Path(__file__).parents[2] / "pipelines" / "data" / "digits.csv.gz"


def train(home: Home, dataset: Path, *, cache: bool = True, epochs: int = 1) -> tuple[str, str, str]:
    """Run the flagship; how its training ended, what that logged, and where its checkpoints were to be kept."""
    loaded = load("retraining", overrides=[f"dataset={dataset}", f"epochs={epochs}", "processes=1", "min_accuracy=0"])
    compiled = compile_pipeline(loaded.pipeline, here=True)
    events: list[Event] = []
    options = Options(pipeline="retraining", cache=cache)
    summary = Runner(home, events.append).start(compiled.text, {}, options, assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    (status,) = (event.status for event in events if isinstance(event, StepFinished) and event.step == "train")
    logs = "".join(path.read_text() for path in (home.run(summary.execution) / "train").rglob("*.log"))
    step = next(step for step in compiled.definition["Steps"] if step["Name"] == "train")
    return status, logs, step["Arguments"]["CheckpointConfig"]["S3Uri"]


@pytest.mark.slow
def test_a_later_run_hits_the_cache_or_trains_anew(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    status, log, location = train(home, DIGITS)
    assert (status, "resuming" in log) == ("Succeeded", False)

    status, log, unchanged = train(home, DIGITS)
    assert (status, log) == ("Cached", "")

    status, log, repeated = train(home, DIGITS, cache=False)
    assert (status, "resuming from" in log) == ("Succeeded", False)
    assert "starts from: nothing (a new training)" in log and "the same training has ended before in run" in log

    status, log, longer = train(home, DIGITS, epochs=2)
    assert (status, "resuming from" in log) == ("Succeeded", False)
    assert "epoch 1/2" in log and "epoch 2/2" in log

    grown = tmp_path / "digits.csv"
    grown.write_bytes(b"\n".join(gzip.decompress(DIGITS.read_bytes()).splitlines()[:1500]) + b"\n")
    status, log, other_data = train(home, grown)
    assert (status, "resuming" in log) == ("Succeeded", False)
    assert location == unchanged == repeated == longer == other_data
