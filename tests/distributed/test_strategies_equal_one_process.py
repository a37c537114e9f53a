"""The contract of a strategy: whatever the distribution, training is that of one process with the whole batch.

In float64, over uneven parts of a batch and ranks without a sample. Each file of strategies/ is held to it without a
word here; strategy_runs.py says on how many processes, and with which options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from drivetrain.training_scripts import gradients
from drivetrain.training_scripts.process import Process
from tests.distributed.strategy_runs import ALL, FIRST, Run
from tests.distributed.strategy_training import Setting, Trained, difference, fit, identical

ALONE = Run("single", 1)
# Where half the gradients and more are longer than this.
CLIP = {"conv": 0.5, "transformer": 0.3}
TOLERANCE = 1e-10

Reference = Callable[[Setting], Trained]
_references: dict[str, Trained] = {}


@pytest.fixture
def reference(forked: Any) -> Reference:
    """The same training in one process; computed once for all that ask."""

    def train(setting: Setting) -> Trained:
        key = repr(setting)
        if key not in _references:
            (_references[key],) = forked(1, fit, ALONE, setting)
        return _references[key]

    return train


def parameters(runs: list[Run]) -> list[Any]:
    return [pytest.param(run, id=run.id, marks=[pytest.mark.slow] if run.slow else []) for run in runs]


def each_model(runs: list[Run]) -> list[Any]:
    return [
        pytest.param(run, kind, id=f"{run.id}-{kind}", marks=[pytest.mark.slow] if run.slow else [])
        for run in runs
        for kind in run.models
    ]


def setting_for(kind: str, **changes: Any) -> Setting:
    return Setting(kind=kind, clip_norm=CLIP[kind], ema_decay=0.8, **changes)


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize(("run", "kind"), each_model(ALL))
def test_training_equals_one_process(run: Run, kind: str, accumulation: int, reference: Reference, forked: Any) -> None:
    """Loss curve, gradient norms, parameters, moving average and evaluation, over 20 steps of AdamW with clipping."""
    expected = reference(setting_for(kind))
    assert sum(norm > CLIP[kind] for norm in expected.norms) >= 10, "the bound must have been active"
    assert expected.losses[-2] < 0.9 * expected.losses[0], "equality is cheap where nothing is learnt"
    first, *others = forked(run.world_size, fit, run, setting_for(kind, accumulation=accumulation))
    assert difference(first, expected) < TOLERANCE
    for other in others:  # what is reported is the same everywhere
        assert (other.losses, other.norms, other.evaluation) == (first.losses, first.norms, first.evaluation)


@pytest.mark.parametrize("run", parameters(ALL))
def test_sgd_in_single_precision(run: Run, reference: Reference, forked: Any) -> None:
    """(AdamW divides by the gradient's size, which turns the rounding of a gradient of zero into a step.)"""
    setting = Setting(kind=run.models[-1], optimizer="momentum", precision="fp32", learning_rate=0.05)
    first = forked(run.world_size, fit, run, setting)[0]
    assert difference(first, reference(setting)) < 2e-5


@pytest.mark.parametrize("optimizer", ["amsgrad", "sgd", "momentum"])
@pytest.mark.parametrize("run", parameters(ALL))
def test_a_training_goes_on_under_another_strategy(run: Run, optimizer: str, reference: Reference, forked: Any) -> None:
    """6 steps, the state saved and loaded, 6 more: from one process to the strategy, back, and to itself."""
    setting = setting_for(run.models[-1], optimizer=optimizer, accumulation=1, steps=6)
    through = reference(replace(setting, steps=12))
    rest = replace(setting, first=6, seed=99)  # a fresh model that starts elsewhere: what counts was loaded

    moved = forked(run.world_size, fit, run, replace(rest, start=reference(setting)))[0]
    assert _end_differs(moved, through) < TOLERANCE

    half = forked(run.world_size, fit, run, setting)[0]
    (back,) = forked(1, fit, ALONE, replace(rest, start=half))
    assert _end_differs(back, through) < TOLERANCE

    whole = forked(run.world_size, fit, run, replace(setting, steps=12))[0]
    resumed = forked(run.world_size, fit, run, replace(rest, start=half))[0]
    assert identical(resumed, replace(whole, losses=whole.losses[6:], norms=whole.norms[6:]))


def _end_differs(resumed: Trained, through: Trained) -> float:
    return difference(resumed, replace(through, losses=through.losses[6:], norms=through.norms[6:]))


def clip_too_long(process: Process, run: Run, setting: Setting) -> Trained:
    right = gradients.scale
    gradients.scale = lambda parameters, factor: right(parameters, factor * 1.01)  # in the forked rank only
    return fit(process, run, setting)


def leave_one_unscaled(process: Process, run: Run, setting: Setting) -> Trained:
    right = gradients.scale
    gradients.scale = lambda parameters, factor: right(parameters[1:], factor)
    return fit(process, run, setting)


@pytest.mark.parametrize("mistake", [clip_too_long, leave_one_unscaled])
@pytest.mark.parametrize("run", parameters(FIRST))
def test_a_small_mistake_is_noticed(run: Run, mistake: Any, reference: Reference, forked: Any) -> None:
    """What the comparison says of a clip norm that is off by 1 %, or of one gradient that was left as it is.

    The first step's bound is active, and SGD shows a gradient's length (AdamW hardly does).
    """
    setting = setting_for(run.models[-1], optimizer="sgd", steps=3)
    wrong = forked(run.world_size, mistake, run, setting)[0]
    assert difference(wrong, reference(setting)) > 1000 * TOLERANCE
