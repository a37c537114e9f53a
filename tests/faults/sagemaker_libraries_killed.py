"""SIGKILL trainings over stand-ins of SageMaker's libraries, each strategy in turns, and let them go on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.checkpoint_killed import trial

if TYPE_CHECKING:
    from tests.faults.harness.training import Reference

__all__ = ["trial"]

FAULT = "smddp, smddp_fsdp, smp (over stand-ins) killed at any instant: whole, unmixed, one save lost, bit-equal"
TRIALS, QUICK, AT_ONCE = 30, 2, 2
PRELOAD = ("tests.faults.harness.training",)
PATIENCE_S = 600.0


def prepare(folder: Path) -> Sequence[Reference]:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case
    from tests.fixtures import sagemaker_libraries

    sagemaker_libraries.install()
    data = training.write_data(folder / "data")
    common = {"global_batch": "8", "epochs": "6", "log_every": "3", "ema_decay": "0.9", "checkpoint_every": "4steps"}
    cases = [
        Case(name, 2, 4, {**common, "clip_norm": "1.0", "strategy": name}) for name in ("smddp", "smddp_fsdp", "smp")
    ]
    return training.References(cases, data, folder)
