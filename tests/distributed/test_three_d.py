"""Stages, slices and split matrices together, over every pair of them and, slowly, over all three."""

from __future__ import annotations

from typing import Any

import pytest
import torch.distributed as dist

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import Setting, build, difference, fit

ALONE = Run("single", 1)


def degrees(stage: int, shard: int, tensor: int, **options: Any) -> Run:
    given = {"stage": stage, "shard": shard, "tensor": tensor, **options}
    return Run("tp_pp_fsdp", stage * shard * tensor, given)


def compare(kind: str, run: Run, pooled: Any, **changes: Any) -> float:
    setting = Setting(kind=kind, clip_norm=0.4, ema_decay=0.8, **{"accumulation": 3, "steps": 5, **changes})
    (expected,) = pooled(1, fit, ALONE, setting)
    return difference(pooled(run.world_size, fit, run, setting)[0], expected)


@pytest.mark.parametrize(
    ("kind", "run"),
    [
        pytest.param("transformer", degrees(2, 1, 2), marks=pytest.mark.slow),
        pytest.param("conv", degrees(2, 2, 1), marks=pytest.mark.slow),
        ("transformer", degrees(1, 1, 1)),
    ],
    ids=lambda value: "-".join(map(str, value.options.values())) if isinstance(value, Run) else value,
)
def test_pairs_of_dimensions_equal_one_process(kind: str, run: Run, pooled: Any) -> None:
    assert compare(kind, run, pooled) < 1e-10


def build_twice(process: Process, run: Run) -> list[list[int]]:
    """`transformer` has a buffer in its first layer only: ranks of other stages never ask for their group."""
    layouts = [build(process, run, Setting(kind="transformer")).layout for _ in range(2)]
    return [dist.get_process_group_ranks(layout.stage_group()) for layout in layouts]


def test_groups_are_made_by_all_ranks_together(pooled: Any) -> None:
    answers = pooled(4, build_twice, degrees(2, 1, 2))
    assert answers == [[[0, 1]] * 2] * 2 + [[[2, 3]] * 2] * 2


@pytest.mark.parametrize(
    ("schedule", "shard", "tensor"),
    [
        pytest.param("gpipe", 1, 2, marks=pytest.mark.slow),
        pytest.param("interleaved", 2, 1, marks=pytest.mark.slow),
        pytest.param("zero_bubble", 1, 2, marks=pytest.mark.slow),
        pytest.param("gpipe", 2, 1, marks=pytest.mark.nightly),
        pytest.param("interleaved", 1, 2, marks=pytest.mark.nightly),
        pytest.param("zero_bubble", 2, 1, marks=pytest.mark.nightly),
    ],
)
def test_every_schedule_equals_one_process(schedule: str, shard: int, tensor: int, pooled: Any) -> None:
    assert compare("transformer", degrees(2, shard, tensor, schedule=schedule), pooled) < 1e-10


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["conv", "transformer"])
def test_three_dimensions_equal_one_process(kind: str, pooled: Any) -> None:
    assert compare(kind, degrees(2, 2, 2), pooled) < 1e-10


def refused(process: Process, run: Run) -> str:
    with pytest.raises(InputError) as caught:
        build(process, run, Setting(kind="conv"))
    return str(caught.value)


def test_layers_that_share_features_stay_on_one_stage(pooled: Any) -> None:
    """`6` is split by columns and `8` by rows: what goes from one to the other is no whole tensor."""
    (message, *_) = pooled(4, refused, degrees(2, 1, 2, split=["8"]))
    assert "no stage can begin with '8', whose inputs are split over the tensor ranks" in message
    (message, *_) = pooled(4, refused, degrees(2, 1, 2, schedule="interleaved"))
    assert "no way to cut the model into 4 stages" in message
