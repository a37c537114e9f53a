"""SIGKILL trainings under pipeline parallelism, each schedule in turns, and let them go on; each norm is compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.checkpoint_killed import trial

if TYPE_CHECKING:
    from tests.faults.harness.training import Reference

__all__ = ["trial"]

FAULT = "pipelines killed at any instant: whole, unmixed, one save lost, bit-equal with each step's gradient norm"
TRIALS, QUICK, AT_ONCE = 500, 2, 2
PRELOAD = ("tests.faults.harness.training",)
PATIENCE_S = 600.0


def prepare(folder: Path) -> Sequence[Reference]:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data")
    common = {"global_batch": "8", "epochs": "10", "log_every": "1", "ema_decay": "0.9", "checkpoint_every": "7steps"}
    common |= {"clip_norm": "1.0", "strategy": "pp"}
    schedules = ("1f1b", "gpipe", "interleaved", "zero_bubble")
    cases = [Case(name, 2, 7, {**common, "strategy_options": f'{{"schedule": "{name}"}}'}) for name in schedules]
    return training.References(cases, data, folder)
