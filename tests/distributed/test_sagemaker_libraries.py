"""Strategies over SageMaker's own libraries keep what every strategy promises, held to it over stand-ins.

The libraries exist only in AWS's images; tests/fixtures/sagemaker_libraries has their documented calls over gloo, and
raises where something else is asked for.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process
from drivetrain.training.torch import joining
from tests.distributed.own_ranks import run_forked
from tests.distributed.rank_pool import join as join_gloo
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
from tests.fixtures.sagemaker_libraries import installed

SINGLE, DDP, FSDP = Run("single", 1), Run("ddp", 2), Run("fsdp", 2)
SMDDP, SMDDP_FSDP, SMP = Run("smddp", 2), Run("smddp_fsdp", 2), Run("smp", 2)
# Batches of 16, 16, 16 and 1: with 2 ranks one has no sample of the last. Clipped in most steps.
SGD = Setting(optimizer="momentum", precision="fp32", learning_rate=5e-2, clip_norm=0.33, ema_decay=0.8, steps=20)
ADAMW = Setting(precision="fp32", clip_norm=0.33, ema_decay=0.8, steps=20)


def join_smddp(store: Path, timeout: timedelta, process: Process) -> Process:
    """As the train program does it, but they meet through a file."""
    met = dist.FileStore(str(store), process.world_size)
    dist.init_process_group = partial(
        dist.init_process_group, store=met, rank=process.rank, world_size=process.world_size
    )
    return replace(process, joined=joining.join(process, timeout.total_seconds(), "smddp"))


def ranks(folder: Path, run: Run, function: Any, *arguments: Any) -> list[Any]:
    join = join_smddp if run.strategy.startswith("smddp") and run.world_size > 1 else join_gloo
    with installed():
        return run_forked(folder, run.world_size, function, run, *arguments, timeout=240, join=join)


def all_at_once(process: Process, run: Run, halves: Setting) -> tuple[Any, ...]:
    """What takes long is to start ranks: one start for several trainings."""
    return (
        fit(process, run, replace(SGD, accumulation=3)),
        fit(process, run, ADAMW),
        *fit_in_halves(process, run, halves),
        calls_of(run),
    )


def calls_of(run: Run) -> list[str]:
    """What the library was asked for; and the only group, through which DistributedDataParallel and FSDP talk."""
    name = "torch.sagemaker" if run.strategy == "smp" else joining.IMPORTED["smddp"]
    groups = [backend for backend, _ in dist.distributed_c10d._world.pg_map.values()]
    return [*sys.modules[name].calls, f"groups: {', '.join(groups)}"]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, Trained, Trained]:
    """One process: SGD, AdamW, and SGD in two halves."""
    folder = tmp_path_factory.mktemp("alone")
    sgd, adamw, (_, end) = (
        run_forked(folder, 1, function, SINGLE, setting)[0]
        for function, setting in ((fit, SGD), (fit, ADAMW), (fit_in_halves, replace(SGD, steps=3)))
    )
    return sgd, adamw, end


@pytest.mark.shows("equals one process", "resumes")
@pytest.mark.slow_cases(but=["smddp"])
@pytest.mark.parametrize(
    ("run", "called"),
    [
        (SMDDP, ["init_process_group", "broadcast", "groups: smddp"]),
        (SMDDP_FSDP, ["init_process_group", "broadcast", "groups: smddp"]),
        (SMP, ["init", "FullyShardedDataParallel"]),
        (Run("smp", 4, {"shard": 2}), ["init", "FullyShardedDataParallel"]),
    ],
    ids=["smddp", "smddp_fsdp", "smp", "smp-4"],
)
def test_training_equals_one_process_and_resumes(
    run: Run, called: list[str], alone: tuple[Trained, Trained, Trained], tmp_path: Path
) -> None:
    """20 steps with clipping, accumulation, a moving average and uneven last batches; saved and loaded in between."""
    halves = replace(SGD, steps=3)
    sgd, adamw, end = alone
    first, *others = ranks(tmp_path, run, all_at_once, halves)
    got_sgd, got_adamw, half, whole, calls = first
    assert difference(got_sgd, sgd) < 1e-6, worst(got_sgd, sgd)
    assert difference(got_adamw, adamw) < 2e-5, worst(got_adamw, adamw)
    for other, *_ in others:  # what is reported is the same everywhere
        assert (other.losses, other.norms, other.evaluation) == (got_sgd.losses, got_sgd.norms, got_sgd.evaluation)
    assert list(dict.fromkeys(call for call in calls if call in called)) == called  # the library did it, in this order
    rest = replace(halves, first=3, seed=99)
    moved, resumed = ranks(tmp_path, run, fit_each, [replace(rest, start=each) for each in (half, half)])[0]
    assert difference(moved, end) < 1e-6, worst(moved, end)
    assert identical(resumed, whole), worst(resumed, whole)


@pytest.mark.shows("exact evaluation")
@pytest.mark.slow
@pytest.mark.parametrize("run", [SMDDP, SMDDP_FSDP, SMP], ids=lambda run: run.strategy)
def test_evaluation_has_the_same_digits_on_any_number_of_processes(
    run: Run, alone: tuple[Trained, Trained, Trained], tmp_path: Path
) -> None:
    setting = replace(SGD, precision="fp64", steps=0, ema_decay=0.0, start=alone[0])
    start = replace(alone[0], model={name: each.astype("float64") for name, each in alone[0].model.items()})
    setting = replace(setting, start=replace(start, optimizer={}, average={}))
    (expected,) = run_forked(tmp_path, 1, fit, SINGLE, setting)
    for size in (2, 3):
        for got in ranks(tmp_path, replace(run, world_size=size), fit, setting):
            assert got.evaluation == expected.evaluation


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "others"),
    [(SMDDP, [SINGLE, DDP]), (SMDDP_FSDP, [FSDP, SMDDP]), (Run("smp", 3), [FSDP, SINGLE, SMP])],
    ids=["smddp", "smddp_fsdp", "smp"],
)
def test_checkpoints_move_to_other_strategies_and_back(run: Run, others: list[Run], tmp_path: Path) -> None:
    setting = replace(ADAMW, kind="transformer", steps=2)
    folder = tmp_path / "checkpoints"
    saved, _ = ranks(tmp_path, run, save, setting, folder)[0]
    for other in others:
        loaded, _ = ranks(tmp_path, other, load, setting, folder)[0]
        assert_same(loaded, saved)
    back = tmp_path / "of ddp"
    saved, _ = ranks(tmp_path, DDP, save, setting, back)[0]
    loaded, _ = ranks(tmp_path, run, load, setting, back)[0]
    assert_same(loaded, saved)


def refused(process: Process, run: Run, setting: Setting) -> None:
    fit(process, run, setting)


@pytest.mark.parametrize(
    ("run", "common", "said"),
    [
        (SMP, {"compile": True}, "compile=True under strategy 'smp'.*use strategy hsdp"),
        (Run("smp", 2, {"shard": 1}), {}, "shard=1 leaves every copy whole.*Use strategy ddp"),
        (Run("smp", 4, {"tensor": 2}), {}, "tensor 2, and the recipe's model is a Sequential"),
        (Run("smp", 4, {"tensor": 3}), {}, "tensor 3 needs a multiple of 3 processes, but there are 4"),
        (Run("smp", 2, {"activation_offloading": True}), {}, "without activation_checkpointing.*Give activation_ch"),
        (Run("smp", 2, {"shard": 3}), {}, "shard 3 needs a multiple of 3 processes, but there are 2"),
    ],
    ids=["compile", "shard", "tensor", "degrees", "offloading", "processes"],
)
def test_unsupported_smp_settings_are_refused(run: Run, common: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=rf"(?s)errors\.InputError: [^\n]*{said}"):
        ranks(tmp_path, run, refused, replace(SGD, common=common))


def test_without_the_library_it_says_what_to_use_instead(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)InputError: [^\n]*only images of AWS hold. Here use strategy hsdp"):
        run_forked(tmp_path, 2, refused, SMP, SGD)
    with pytest.raises(
        InputError, match=r"backend 'smddp' needs smdistributed.*\(ddp for smddp, fsdp for smddp_fsdp\)"
    ):
        joining.import_backend("smddp")


def test_a_job_with_contradicting_parameters_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SM_HP_MP_PARAMETERS", '{"hybrid_shard_degree": 0}')
    with pytest.raises(
        AssertionError, match=r"InputError: [^\n]*shard 2, but the library began with hybrid_shard_degr"
    ):
        ranks(tmp_path, SMP, refused, SGD)
