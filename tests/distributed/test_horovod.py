"""Horovod keeps what every strategy promises, with the wheel that `make test-horovod` builds or finds."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from drivetrain.training.process import Process
from tests.distributed.own_ranks import run_forked
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import (
    Setting,
    Trained,
    difference,
    fit,
    fit_each,
    fit_in_halves,
    identical,
    worst,
)
from tests.distributed.test_checkpoints_strategies import assert_same, load, save

pytestmark = [
    pytest.mark.horovod,
    pytest.mark.skipif(
        importlib.util.find_spec("horovod") is None, reason="Horovod is not built: make .venvs/horovod/.installed"
    ),
]

SINGLE = Run("single", 1)
# 20 steps: batches of 16, 16, 16 and 1; of the last all ranks but one have no sample. Clipped in most steps.
SGD = Setting(optimizer="momentum", precision="fp32", learning_rate=5e-2, clip_norm=0.33, ema_decay=0.8, steps=20)
ADAMW = Setting(precision="fp32", clip_norm=0.33, steps=20)
# (In fp32 the bias of an attention's keys, whose gradient is zero but for rounding, would be any number by AdamW.)
DOUBLE = Setting(kind="transformer", clip_norm=0.33, accumulation=3, steps=20)
MODELS, BOUNDS = [SGD, replace(SGD, accumulation=3), ADAMW, DOUBLE], [1e-6, 1e-6, 2e-5, 1e-10]


def horovod(ranks: int, **options: object) -> Run:
    return Run("horovod", ranks, options)


@pytest.fixture(autouse=True)
def imported() -> None:
    """Once, here: the ranks are forked from this process."""
    importlib.import_module("horovod.torch")


def all_at_once(process: Process, run: Run, halves: Setting) -> tuple[list[Trained], tuple[Trained, Trained]]:
    return fit_each(process, run, MODELS), fit_in_halves(process, run, halves)


@pytest.mark.parametrize("run", [horovod(2), horovod(3, group_mb=0.0005)], ids=["2", "3-many-groups"])
def test_equals_one_process_and_goes_on(run: Run, tmp_path: Path) -> None:
    """With clipping, accumulation, a moving average and uneven last batches; saved and loaded in between."""
    halves = replace(SGD, steps=5)
    ((alone, (_, end)),) = run_forked(tmp_path, 1, all_at_once, SINGLE, halves)
    (got, (half, whole)), *others = run_forked(tmp_path, run.world_size, all_at_once, run, halves, timeout=120)
    for mine, reference, bound in zip(got, alone, BOUNDS, strict=True):
        assert difference(mine, reference) < bound, worst(mine, reference)
        assert mine.evaluation == pytest.approx(reference.evaluation, rel=1e-5)
    for other, _ in others:  # what is reported is the same everywhere
        for mine, its in zip(got, other, strict=True):
            assert (its.losses, its.norms, its.evaluation) == (mine.losses, mine.norms, mine.evaluation)
    rest = replace(halves, first=5, seed=99)
    resumed = run_forked(tmp_path, run.world_size, fit, run, replace(rest, start=half), timeout=120)[0]
    assert identical(resumed, whole), worst(resumed, whole)
    (back,) = run_forked(tmp_path, 1, fit, SINGLE, replace(rest, start=half))
    assert difference(back, end) < 1e-6, worst(back, end)
