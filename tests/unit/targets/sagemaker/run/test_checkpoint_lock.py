"""Two trainings never write to one place for checkpoints at the same time."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.home import Home
from tests.fixtures.local_runs import BUCKET, LocalRuns

PATIENCE_S = 30.0
PLACE = f"{BUCKET}/checkpoints/train/"
HOLD = """
import sys
from drivetrain.run_store.home import Home
with Home(sys.argv[1]).checkpoint_lock(sys.argv[2], "20261120-2214", "train"):
    print("held", flush=True)
    sys.stdin.read()
"""
TRAIN = "from pathlib import Path; Path('/opt/ml/checkpoints/step-1').write_text('1')"


@pytest.fixture
def holder(runs: LocalRuns):
    """Another process that trains there."""
    command = [sys.executable, "-c", HOLD, str(runs.home.root), PLACE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_training_is_refused_at_once(runs: LocalRuns, holder: subprocess.Popen[str]) -> None:
    began = time.monotonic()
    summary = runs.start([runs.training("train", TRAIN, checkpoints=PLACE)])
    assert summary.status == "Failed" and time.monotonic() - began < 20.0
    assert summary.reason is not None
    assert f"error: Run 20261120-2214 (step 'train', pid {holder.pid}) is training with" in summary.reason
    assert len(summary.reason.splitlines()) == 1 and PLACE in summary.reason
    assert not runs.store.exists(PLACE)


def test_a_killed_holder_holds_nothing(runs: LocalRuns, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait(PATIENCE_S)
    assert runs.start([runs.training("train", TRAIN, checkpoints=PLACE)]).status == "Succeeded"
    assert runs.store.exists(PLACE)


def test_other_places_are_free(runs: LocalRuns, holder: subprocess.Popen[str]) -> None:
    other = f"{BUCKET}/checkpoints/train2/"
    assert runs.start([runs.training("train", TRAIN, checkpoints=other)]).status == "Succeeded"


@pytest.mark.slow
def test_one_place_however_it_is_written(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with home.checkpoint_lock(PLACE, "first", "train"):
        with (
            pytest.raises(UserError, match=r"Run first \(step 'train', pid \d+\)"),
            home.checkpoint_lock(PLACE.rstrip("/"), "second", "train"),
        ):
            pass
        with home.checkpoint_lock(f"{PLACE}x/", "second", "train"):
            pass
    with home.checkpoint_lock(PLACE, "third", "train"):
        pass
