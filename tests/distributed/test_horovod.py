"""Horovod keeps what every strategy promises: with the wheel that `make horovod` builds or finds."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.horovod import start
from drivetrain.training.process import Process
from drivetrain.training.strategy import load_strategy
from drivetrain.training_scripts.strategies import horovod
from tests.distributed import test_freezing
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

WITHOUT = importlib.util.find_spec("horovod") is None
needs_horovod = pytest.mark.skipif(WITHOUT, reason="did not run: Horovod is not built (make horovod)")

SINGLE, DDP = Run("single", 1), Run("ddp", 2)
# 20 steps: batches of 16, 16, 16 and 1; of the last all ranks but one have no sample. Clipped in most steps.
SGD = Setting(optimizer="momentum", precision="fp32", learning_rate=5e-2, clip_norm=0.33, ema_decay=0.8, steps=20)
ADAMW = Setting(precision="fp32", clip_norm=0.33, steps=20)
# (In fp32 the bias of an attention's keys, whose gradient is zero but for rounding, would be any number by AdamW.)
DOUBLE = Setting(kind="transformer", clip_norm=0.33, accumulation=3, steps=20)
SETTINGS = [SGD, replace(SGD, accumulation=3), ADAMW, DOUBLE]
MOST_DIFFERENT = [1e-6, 1e-6, 2e-5, 1e-10]
HALVES = replace(SGD, steps=5)


def of_horovod(ranks: int, **options: object) -> Run:
    return Run("horovod", ranks, options)


@pytest.fixture
def imported() -> None:
    """Once, here: the ranks are forked from this process."""
    importlib.import_module("horovod.torch")


def all_at_once(process: Process, run: Run) -> tuple[list[Trained], tuple[Trained, Trained]]:
    """What takes long is to start ranks: one start for several trainings."""
    return fit_each(process, run, SETTINGS), fit_in_halves(process, run, HALVES)


@needs_horovod
@pytest.mark.horovod
@pytest.mark.shows("equals one process", "resumes", "exact evaluation")
@pytest.mark.parametrize("run", [of_horovod(2), of_horovod(3, group_mb=0.0005)], ids=["2", "3-many-groups"])
def test_training_equals_one_process_and_resumes(run: Run, imported: None, tmp_path: Path) -> None:
    """With clipping, accumulation, a moving average and uneven last batches; saved and loaded in between."""
    ((alone, (_, end)),) = run_forked(tmp_path, 1, all_at_once, SINGLE)
    (got, (half, whole)), *others = run_forked(tmp_path, run.world_size, all_at_once, run, timeout=120)
    for mine, reference, most in zip(got, alone, MOST_DIFFERENT, strict=True):
        assert difference(mine, reference) < most, worst(mine, reference)
    for other, _ in others:  # what is reported is the same everywhere
        for mine, its in zip(got, other, strict=True):
            assert (its.losses, its.norms, its.evaluation) == (mine.losses, mine.norms, mine.evaluation)
    rest = replace(HALVES, first=5, seed=99)
    resumed = run_forked(tmp_path, run.world_size, fit, run, replace(rest, start=half), timeout=120)[0]
    assert identical(resumed, whole), worst(resumed, whole)
    (back,) = run_forked(tmp_path, 1, fit, SINGLE, replace(rest, start=half))
    assert difference(back, end) < 1e-6, worst(back, end)
    # The same model is evaluated to the same digits on any number of processes.
    look = replace(HALVES, steps=0, start=half)
    found = [run_forked(tmp_path, each.world_size, fit, each, look)[0].evaluation for each in (SINGLE, DDP, run)]
    assert found == [half.evaluation] * 3


@needs_horovod
@pytest.mark.horovod
def test_checkpoints_move_between_horovod_and_others(imported: None, tmp_path: Path) -> None:
    setting = replace(ADAMW, steps=2, ema_decay=0.8)
    ours, of_ddp = tmp_path / "ours", tmp_path / "of ddp"
    saved, _ = run_forked(tmp_path, 3, save, of_horovod(3), setting, ours)[0]
    for run in (DDP, SINGLE, of_horovod(2)):
        loaded, _ = run_forked(tmp_path, run.world_size, load, run, setting, ours)[0]
        assert_same(loaded, saved)
    saved, _ = run_forked(tmp_path, 2, save, DDP, setting, of_ddp)[0]
    loaded, _ = run_forked(tmp_path, 3, load, of_horovod(3), setting, of_ddp)[0]
    assert_same(loaded, saved)


@needs_horovod
@pytest.mark.horovod
def test_gradients_that_travel_in_fp16_are_rounded_and_no_more(imported: None, tmp_path: Path) -> None:
    plain, rounded = (
        run_forked(tmp_path, 2, fit, of_horovod(2, compression=compression), HALVES)[0]
        for compression in ("none", "fp16")
    )
    assert 0 < difference(plain, rounded) < 1e-2, worst(plain, rounded)


def skip_a_layer(process: Process, group_mb: float) -> list[float | None]:
    """Of each parameter, the first number of its averaged gradient: rank 1 does not use the second layer, and no rank
    the third, which stays without one, as in one process: with zeros an optimizer would move it by its momentum."""
    import torch

    module = importlib.import_module("horovod.torch")
    start("torch", process)
    layers = torch.nn.ModuleDict({name: torch.nn.Linear(1, 1) for name in ("first", "second", "third")})
    gradients = horovod.GroupedGradients(module, dict(layers.named_parameters()), horovod.Options(group_mb=group_mb))
    used = ["first"] if process.rank else ["first", "second"]
    with gradients.averaging():
        sum(layers[name](torch.ones(1, 1)) for name in used).sum().backward()  # type: ignore[union-attr]
    return [None if each.grad is None else float(each.grad.flatten()[0]) for each in layers.parameters()]


@needs_horovod
@pytest.mark.horovod
@pytest.mark.parametrize("group_mb", [25.0, 0.000001])
def test_a_rank_that_skips_a_layer_does_not_block_others(group_mb: float, imported: None, tmp_path: Path) -> None:
    expected = [1.0, 1.0, 0.5, 0.5, None, None]
    assert run_forked(tmp_path, 2, skip_a_layer, group_mb, timeout=30) == [expected] * 2


@needs_horovod
@pytest.mark.horovod
def test_freezing_equals_one_process_and_unfreezing_is_refused(imported: None, tmp_path: Path) -> None:
    run, frozen = of_horovod(2), [test_freezing.setting("layer", False)]
    ((exact,),) = run_forked(tmp_path, 1, fit_each, SINGLE, frozen)
    (trained,) = run_forked(tmp_path, 2, fit_each, run, frozen)[0]
    assert difference(trained, exact) < 1e-10, worst(trained, exact)
    said = test_freezing.refused(tmp_path, run, "layer", True)
    assert said.startswith("parameter 'first.weight' was frozen when the training started")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"group_mb": 0}, "group_mb=0; allowed are numbers from 0.000001 to 1000000"),
        ({"compression": "fp8"}, "compression='fp8'; allowed are none, fp16"),
        ({"adasum": True}, "strategy 'horovod' has no option 'adasum'. Allowed: compression, group_mb"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_strategy("horovod", options)


def test_without_horovod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "horovod.torch", None)
    process = Process(0, 2, 0, 2, None)
    said = r"strategy 'horovod': .*pip install \$\(python -m .*\.build torch\).* Or use strategy ddp"
    with pytest.raises(InputError, match=said):
        start("torch", process)
