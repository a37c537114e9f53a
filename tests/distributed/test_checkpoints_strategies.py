"""What one strategy saves every other one can load: the same state, on any number of ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivetrain.training.checkpointing.checkpointer import Checkpointer
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.process import Process
from drivetrain.training.torch import gathering as state
from drivetrain.training.torch.checkpoints.state import model_parts
from tests.distributed.strategy_runs import FIRST, Run, parameters
from tests.distributed.strategy_training import Arrays, Setting, Trained, build, go_on, identical, whole_state

SETTING = Setting(kind="transformer", steps=2, ema_decay=0.9)
STEP = 2
State = tuple[Arrays, Arrays, Arrays, dict[str, Any], Arrays]

SINGLE = Run("single", 1)
RUNS = [SINGLE, *(run for run in FIRST if "transformer" in run.models)]


def best_of(strategy: Any, best: dict[str, Any]) -> Arrays:
    return {name: tensor.numpy() for name, tensor in state.gather(strategy, best).items()}


def save(process: Process, run: Run, setting: Setting, folder: Path) -> tuple[State, Trained]:
    """Train and save; the whole state at that moment, and what comes of as many steps more."""
    strategy = build(process, run, setting)
    go_on(strategy, setting)
    with Checkpointer(open_place(folder), process) as checkpoints:
        best = model_parts(strategy)
        checkpoints.save(STEP, {"consumed": 32}, strategy, best=best)
        saved = (*whole_state(strategy), best_of(strategy, best))
        assert checkpoints.wait()
    return saved, go_on(strategy, replace(setting, first=STEP))


def load(process: Process, run: Run, setting: Setting, folder: Path) -> tuple[State, Trained]:
    """Load into another model than the one that was saved; the whole state, and what comes of training on."""
    strategy = build(process, run, replace(setting, seed=1))
    best: dict[str, Any] = {}
    with Checkpointer(open_place(folder), process) as checkpoints:
        values = checkpoints.load_newest(strategy, best=best)
        assert values is not None
        assert values["consumed"] == 32
        loaded = (*whole_state(strategy), best_of(strategy, best))
    return loaded, go_on(strategy, replace(setting, first=STEP))


def by_parameter(values: dict[str, Any]) -> dict[str, Any]:
    """The optimizer's groups differ between strategies; what they say of a parameter does not."""
    return {
        name: {key: value for key, value in group.items() if key not in ("params", "foreach", "fused")}
        for group in values["groups"]
        for name in group["params"]
    }


def assert_same(loaded: State, saved: State) -> None:
    for number, name in ((0, "model"), (1, "optimizer"), (2, "average"), (4, "best")):
        one, other = loaded[number], saved[number]
        assert other, name
        assert one.keys() == other.keys(), name
        for each in other:
            assert np.array_equal(one[each], other[each]), (name, each)
    assert by_parameter(loaded[3]) == by_parameter(saved[3])


Saved = Callable[[Run], tuple[Path, State, Trained]]


_saved: dict[str, tuple[Path, State, Trained]] = {}


@pytest.fixture
def saved_by(pooled: Any, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """What a strategy saves; once for all that load it."""

    def make(run: Run) -> tuple[Path, State, Trained]:
        if run.id not in _saved:
            folder = tmp_path_factory.mktemp(run.id)
            _saved[run.id] = (folder, *pooled(run.world_size, save, run, SETTING, folder)[0])
        return _saved[run.id]

    return make


def check(run: Run, other: Run, saved_by: Saved, pooled: Any) -> None:
    folder, saved, trained = saved_by(run)
    loaded, went_on = pooled(other.world_size, load, other, SETTING, folder)[0]
    assert_same(loaded, saved)
    if run == other:
        assert identical(went_on, trained)
    else:  # sums of another order
        assert np.allclose(went_on.losses, trained.losses, rtol=1e-9)


def id_of(case: Any) -> str:
    return case.id


# A ring: each strategy saves for the next one, which has another layout. And a star: through one process each saves for
# all and loads from all.
SMALL = [run for run in RUNS if run.world_size <= 2]
QUICK = list(pairwise([*SMALL, SINGLE]))
RING = list(pairwise([*RUNS, SINGLE]))
STAR = [pair for run in RUNS[1:] for pair in ((run, SINGLE), (SINGLE, run))]


@pytest.mark.slow_cases(
    "pp-2-stage=2-tp-2-tensor=2", "fsdp-2-pp-2-stage=2", "cp-2-ddp-2", "tp-2-tensor=2-single-1", "single-1-cp-2"
)
@pytest.mark.parametrize(
    ("run", "other"),
    [
        pytest.param(*pair, id="-".join(run.id for run in pair), marks=[] if pair in QUICK else [pytest.mark.slow])
        for pair in [
            *QUICK,
            *(pair for pair in RING if pair not in QUICK),
            *(pair for pair in STAR if pair not in QUICK + RING),
        ]
    ],
)
def test_another_strategy_loads_the_checkpoint(run: Run, other: Run, saved_by: Saved, pooled: Any) -> None:
    check(run, other, saved_by, pooled)


# (Of ddp, fsdp and pp restarts of whole trainings show it: test_resume.py, test_loop.py.)
@pytest.mark.slow
@pytest.mark.shows("resumes")
@pytest.mark.parametrize("run", parameters(RUNS[1:], quick_ranks=2, quick=("cp", "tp")))
def test_training_resumes_bit_for_bit(run: Run, saved_by: Saved, pooled: Any) -> None:
    check(run, run, saved_by, pooled)


@pytest.mark.nightly
@pytest.mark.parametrize("run", RUNS, ids=id_of)
def test_every_strategy_loads_the_checkpoint(run: Run, saved_by: Saved, pooled: Any) -> None:
    folder, saved, trained = saved_by(run)
    for other in RUNS:
        loaded, went_on = pooled(other.world_size, load, other, SETTING, folder)[0]
        assert_same(loaded, saved)
        if run == other:
            assert identical(went_on, trained)


@pytest.mark.slow_cases("sgd", "amsgrad", "momentum")
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "amsgrad", "adafactor"])
def test_optimizer_state_is_restored(optimizer: str, pooled: Any, tmp_path: Path) -> None:
    """No state at all, entries of one sort or several, of other shapes than the parameter's."""
    run = Run("ddp", 2)
    setting = replace(SETTING, optimizer=optimizer)
    saved, trained = pooled(2, save, run, setting, tmp_path)[0]
    loaded, went_on = pooled(2, load, run, setting, tmp_path)[0]
    assert loaded[1].keys() == saved[1].keys()
    assert identical(went_on, trained)
