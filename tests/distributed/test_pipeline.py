"""Stages: every schedule, cuts by hand and by cost, micro-batches that do not come out even, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.process import Process
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import Setting, build, difference, fit

ALONE = Run("single", 1)
# Batches of 16, 16, 16 and 1, in three pieces.
SETTING = Setting(kind="conv", clip_norm=0.5, ema_decay=0.8, accumulation=3, steps=8)


def refused(process: Process, run: Run, setting: Setting) -> str:
    try:
        build(process, run, setting)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("world_size", "options"),
    [
        (2, {"schedule": "gpipe"}),
        (2, {"micro_batches": 3, "split": ["6"]}),
        (1, {}),
        (2, {"schedule": "interleaved"}),
        (2, {"schedule": "zero_bubble"}),
        (2, {"schedule": "zero_bubble", "virtual": 1}),
        (1, {"schedule": "interleaved"}),
        (1, {"schedule": "zero_bubble"}),
        (3, {"schedule": "zero_bubble", "virtual": 1}),
        (4, {"schedule": "1f1b"}),
    ],
)
def test_every_schedule_equals_one_process(world_size: int, options: dict[str, Any], forked: Any) -> None:
    (expected,) = forked(1, fit, ALONE, SETTING)
    first = forked(world_size, fit, Run("pp", world_size, options), SETTING)[0]
    assert difference(first, expected) < 1e-10
