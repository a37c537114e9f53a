"""The cache and the checkpoints together: an unchanged step hits; a repeated or longer training, or one of new data,
starts anew in a later run.

All of them share one checkpoint location, which is part of the cache's key and so may not hold anything of the data.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from drivetrain import Cluster, Pipeline, step
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train
from drivetrain.run_store.events import Event, StepFinished
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner

DIGITS = Path(__file__).parents[2] / "pipelines" / "data" / "digits.csv.gz"


def trained(home: Home, dataset: Path, *, cache: bool = True, epochs: int = 1) -> tuple[str, str, str]:
    """How a training of prepared data ended, what it logged, and where its checkpoints were to be kept."""
    data = step(prepare_data, name="prepare", raw=str(dataset), key="id", label="label")
    fit = step(
        train,
        train=data["train"],
        validation=data["validation"],
        recipe_options='{"channels": 4, "hidden": 16}',
        epochs=epochs,
        cluster=Cluster(processes=1),
    )
    compiled = compile_pipeline(Pipeline(name="learning", steps=[data, fit]), here=True)
    events: list[Event] = []
    options = Options(pipeline="learning", cache=cache)
    summary = Runner(home, events.append).start(compiled.text, {}, options, assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    (status,) = (event.status for event in events if isinstance(event, StepFinished) and event.step == "train")
    logs = "".join(path.read_text() for path in (home.run(summary.execution) / "train").rglob("*.log"))
    fitting = next(each for each in compiled.definition["Steps"] if each["Name"] == "train")
    return status, logs, fitting["Arguments"]["CheckpointConfig"]["S3Uri"]


@pytest.mark.slow
def test_a_later_run_hits_the_cache_or_trains_anew(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    status, log, location = trained(home, DIGITS)
    assert (status, "resuming" in log) == ("Succeeded", False)

    status, log, unchanged = trained(home, DIGITS)
    assert (status, log) == ("Cached", "")

    status, log, repeated = trained(home, DIGITS, cache=False)
    assert (status, "resuming from" in log) == ("Succeeded", False)
    assert "starts from: nothing (a new training)" in log and "the same training has ended before in run" in log

    status, log, longer = trained(home, DIGITS, epochs=2)
    assert (status, "resuming from" in log) == ("Succeeded", False)
    assert "epoch 1/2" in log and "epoch 2/2" in log

    grown = tmp_path / "digits.csv"
    grown.write_bytes(b"\n".join(gzip.decompress(DIGITS.read_bytes()).splitlines()[:1500]) + b"\n")
    status, log, other_data = trained(home, grown)
    assert (status, "resuming" in log) == ("Succeeded", False)
    assert location == unchanged == repeated == longer == other_data
