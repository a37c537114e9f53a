"""SIGKILL trainings under DeepSpeed's ZeRO, each stage in turns, and its pipeline engine, and let them go on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.checkpoint_killed import trial

if TYPE_CHECKING:
    from tests.faults.harness.training import Reference

__all__ = ["trial"]

FAULT = "DeepSpeed's ZeRO 1, 2, 3 and pipeline killed at any instant: whole, unmixed, one save lost, bit-equal"
TRIALS, QUICK, AT_ONCE = 40, 2, 2
PRELOAD = ("tests.faults.harness.training", "deepspeed")
PATIENCE_S = 600.0


def prepare(folder: Path) -> Sequence[Reference]:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data")
    common = {"global_batch": "8", "epochs": "6", "log_every": "3", "ema_decay": "0.9", "checkpoint_every": "4steps"}
    common |= {"clip_norm": "1.0", "strategy": "deepspeed"}
    cases = [
        Case(f"stage {stage}", 2, 4, {**common, "strategy_options": f'{{"stage": {stage}}}'}) for stage in (1, 2, 3)
    ]
    cases.append(Case("pipeline", 2, 4, {**common, "strategy": "deepspeed_pp"}))
    return training.References(cases, data, folder)
