from __future__ import annotations

from typing import Any

import pytest
import torch

from drivetrain.base.degrees import DIMENSIONS
from drivetrain.base.errors import InputError
from drivetrain.training.layout import Layout
from drivetrain.training.process import Process
from drivetrain.training.torch.parallel.layout import lay_out


def process(rank: int, world_size: int, local_world_size: int = 0) -> Process:
    local = local_world_size or world_size
    return Process(rank, world_size, rank % local, local, torch.device("cpu"))


def test_which_ranks_share_a_model_in_three_dimensions() -> None:
    layout = Layout(process(0, 8), {"stage": 2, "shard": 2, "tensor": 2})
    assert layout.describe() == [
        "8 ranks: stage 2 x shard 2 x tensor 2",
        "  share samples, split the matrices: [0 1] [2 3] [4 5] [6 7]",
        "  shards (slices of the same parameters, different samples): [0 2] [1 3] [4 6] [5 7]",
        "  stages of one pipeline: [0 4] [1 5] [2 6] [3 7]",
    ]


def test_the_place_of_each_rank_in_three_dimensions() -> None:
    layouts = [Layout(process(rank, 8), {"stage": 2, "shard": 2, "tensor": 2}) for rank in range(8)]
    assert [tuple(layout.coordinates.values()) for layout in layouts] == [
        (stage, shard, tensor) for stage in (0, 1) for shard in (0, 1) for tensor in (0, 1)
    ]
    assert [layout.data_rank for layout in layouts] == [0, 0, 1, 1, 0, 0, 1, 1]
    assert {layout.data_size for layout in layouts} == {2}
    assert {layout.stage_size for layout in layouts} == {4}
    # The last stage has the outputs; of those that share samples one is enough.
    assert [rank for rank, layout in enumerate(layouts) if layout.counts] == [4, 6]
    assert {layout.speaker for layout in layouts} == {4}


def test_replicas_and_shards_both_share_out_the_samples() -> None:
    layouts = [Layout(process(rank, 4), {"replicate": 2, "shard": 2}) for rank in range(4)]
    assert [layout.data_rank for layout in layouts] == [0, 1, 2, 3]
    assert all(layout.counts for layout in layouts)


def test_long_lists_are_cut_short() -> None:
    lines = Layout(process(0, 64), {"replicate": 4, "shard": 16}).describe()
    assert lines[0] == "64 ranks: replicate 4 x shard 16"
    assert lines[1].endswith(
        "[0 1 2 3 4 5 6 7 ...] [16 17 18 19 20 21 22 23 ...] [32 33 34 35 36 37 38 39 ...] "
        + ("[48 49 50 51 52 53 54 55 ...]")
    )
    assert lines[2].endswith("[0 16 32 48] [1 17 33 49] [2 18 34 50] [3 19 35 51] and 12 more")


def test_one_process() -> None:
    assert Layout(process(0, 1), {}).describe() == ["1 process"]
    assert Layout(process(0, 1), {"replicate": 1}).describe() == ["1 rank: replicate 1"]


def test_the_unset_degree_takes_the_rest() -> None:
    layout = lay_out(process(3, 8), "any", ("replicate", "shard"), {"replicate": 0, "shard": 4}, mesh=False)
    assert layout.degrees == {"replicate": 2, "shard": 4}
    assert layout.mesh is None


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"shard": 3, "tensor": 0}, r"strategy 'any': shard 3 needs a multiple of 3 processes, but there are 8 "),
        (
            {"shard": 2, "tensor": 2},
            r"shard 2 x tensor 2 needs 4 processes, but there are 8 processes \(2 hosts x 4\)\. Change",
        ),
        ({"shard": 0, "tensor": 0}, r"shard and tensor are both 0 \(what is left over\)\. Give one of them"),
        ({"shard": -1, "tensor": 0}, r"shard=-1; allowed are whole numbers from 0"),
        ({"shard": 0, "tensor": 8}, r"tensor 8 would leave the host, which has 4 processes;.*degree that divides 4"),
    ],
)
def test_degrees_that_cannot_be(wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        lay_out(process(0, 8, 4), "any", ("shard", "tensor"), wanted, mesh=False)


def test_tensor_ranks_are_neighbours() -> None:
    assert DIMENSIONS[-1] == "tensor"
    layout = Layout(process(0, 8, 4), {"stage": 2, "replicate": 2, "tensor": 2})
    assert layout.groups("tensor") == [[0, 1], [2, 3], [4, 5], [6, 7]]
