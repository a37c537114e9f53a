"""SIGKILL a training of TensorFlow under Horovod in the middle of its steps: the whole job, or one rank."""

from __future__ import annotations

from pathlib import Path

from tests.faults.harness.families import Found, Trial
from tests.faults.tensorflow_killed import PATIENCE_S, Shared, killed, prepare

__all__ = ["PATIENCE_S", "prepare"]

FAULT = "a training of TensorFlow under Horovod SIGKILLed in its steps: resumes, each step once, weights bit-equal"
TRIALS, QUICK, AT_ONCE = 25, 1, 1
_BUILT = Path(__file__).parents[2] / ".venvs" / "horovod-tensorflow" / ".installed"
MISSING = "" if _BUILT.exists() else "Horovod is not built for TensorFlow (make horovod)"


def trial(given: Trial, shared: Shared) -> Found:
    return killed("tf_horovod", given, shared)
