"""A script that keeps checkpoints of its own, unchanged, on machines that are taken away: the result is the same."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import numpy as np
import pytest

from drivetrain import Pipeline, step
from drivetrain.components.train_script import train_script
from drivetrain.processes import mounts
from drivetrain.run_store.events import Event, StepInterrupted
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import parse_all
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner

SCRIPTS = Path(__file__).parents[1] / "fixtures" / "own_scripts"
STEPS = 140  # the last interruption must find it at work on a busy machine, too


def train(folder: Path, *interruptions: str) -> tuple[bytes, list[StepInterrupted], str, Home]:
    """The model's bytes, what interrupted the training, its log, and where it all lies."""
    data = folder / "data"
    data.mkdir(parents=True)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 8))
    np.savez(data / "data.npz", x=x, y=x @ np.arange(8.0))
    made = step(
        train_script,
        train=str(data),
        script="momentum.py",
        launcher="python",
        hyperparameters=f'{{"steps": {STEPS}, "pause": 0.01}}',
    )
    compiled = compile_pipeline(Pipeline(name="own", steps=[made]), SCRIPTS, folder, here=True)
    events: list[Event] = []
    home = Home(folder / "home")
    options = Options(pipeline="own", interruptions=parse_all(interruptions))
    summary = Runner(home, events.append).start(compiled.text, {}, options, assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    with Ledger(home) as ledger:
        [row] = ledger.steps(summary.execution)
    model = home.objects / str(row.response["ModelArtifacts"]["S3ModelArtifacts"]).removeprefix("s3://")
    with tarfile.open(model) as archive:
        content = archive.extractfile("weights.npy")
        assert content is not None
        weights = content.read()
    log = "".join(path.read_text() for path in home.runs.rglob("127.0.0.1.log"))
    return weights, [event for event in events if isinstance(event, StepInterrupted)], log, home


@pytest.mark.slow
@pytest.mark.skipif(mounts.isolation() == "none", reason="the script names /opt/ml, and here are no private mounts")
def test_the_model_is_that_of_an_uninterrupted_run(tmp_path: Path) -> None:
    alone, none, log, home = train(tmp_path / "alone")
    assert not none and "resuming" not in log
    interrupted, found, log, home = train(
        tmp_path / "spot", "step=58,notice=0", "step=76,notice=20s", "step=95,notice=0"
    )
    assert interrupted == alone
    assert [event.at_step for event in found] == sorted(event.at_step or 0 for event in found) and len(found) == 3
    resumed = [int(number) for number in re.findall(r"resuming after (\d+)", log)]
    # The agent may be some checkpoints behind, where there was no notice; the names are compared as numbers.
    assert len(resumed) == 3 and resumed == sorted(resumed) and resumed[1] >= 76 and resumed[2] > 76
    # Of what the script deleted nothing was deleted in the store, and the next start got it all back.
    assert len(list(home.objects.rglob("step-*.npz"))) > 12
