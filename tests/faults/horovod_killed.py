"""SIGKILL trainings under Horovod and let them go on."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.checkpoint_killed import trial

if TYPE_CHECKING:
    from tests.faults.harness.training import Reference

__all__ = ["trial"]

FAULT = "a training under Horovod killed at any instant: whole, unmixed, one save lost, bit-equal"
TRIALS, QUICK, AT_ONCE = 30, 2, 2
PRELOAD = ("tests.faults.harness.training", "horovod.torch")
PATIENCE_S = 600.0
MISSING = "" if importlib.util.find_spec("horovod") else "Horovod is not built (make horovod)"


def prepare(folder: Path) -> Sequence[Reference]:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data")
    common = {"global_batch": "8", "epochs": "6", "log_every": "3", "ema_decay": "0.9", "checkpoint_every": "4steps"}
    common |= {"clip_norm": "1.0", "strategy": "horovod"}
    cases = [
        Case(f"{ranks} ranks", ranks, 4, {**common, "strategy_options": f'{{"group_mb": {size}}}'})
        for ranks, size in ((2, 25), (3, 0.0001))
    ]
    return training.References(cases, data, folder)
