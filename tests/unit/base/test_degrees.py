from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.degrees import (
    DIMENSIONS,
    World,
    all_degrees,
    crosses_hosts,
    data_size,
    fill,
    groups_of_a_host,
    stride,
)
from drivetrain.base.errors import UserError

EIGHT = World(hosts=2, processes=4)


def test_the_unset_degree_takes_the_remaining_processes() -> None:
    assert fill("fsdp_tp", ("shard", "tensor"), {"tensor": 4}, EIGHT) == {"shard": 2, "tensor": 4}
    assert fill("hsdp", ("replicate", "shard"), {}, EIGHT) == {"replicate": 2, "shard": 4}
    assert fill("single", (), {}, World(1, 1)) == {}


@pytest.mark.parametrize(
    ("dimensions", "wanted", "message"),
    [
        (
            ("shard", "tensor"),
            {"tensor": 3},
            r"tensor 3 needs a multiple of 3 processes, but there are 8 .*2 hosts x 4",
        ),
        (("shard", "tensor"), {"shard": 2, "tensor": 2}, "shard 2 x tensor 2 needs 4 processes"),
        (("shard", "tensor"), {}, "shard and tensor are both 0"),
        (("shard",), {"shard": -1}, "shard=-1; allowed are whole numbers from 0"),
    ],
)
def test_impossible_degrees_are_refused(dimensions: tuple[str, ...], wanted: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        fill("x", dimensions, wanted, EIGHT)


@given(size=st.integers(1, 128), dimensions=st.sets(st.sampled_from(DIMENSIONS)))
def test_every_split_multiplies_to_the_number_of_processes(size: int, dimensions: set[str]) -> None:
    ordered = [name for name in DIMENSIONS if name in dimensions]
    ways = list(all_degrees(ordered, size))
    assert len({tuple(way.items()) for way in ways}) == len(ways)
    for way in ways:
        assert list(way) == ordered
        assert math.prod(way.values()) == size
        assert all(degree > 1 for degree in way.values())
    if len(ordered) == 1 and size > 1:
        assert ways == [{ordered[0]: size}]


def test_the_innermost_dimension_stays_inside_a_host() -> None:
    degrees = {"replicate": 2, "shard": 2, "tensor": 2}
    assert [stride(degrees, name) for name in degrees] == [4, 2, 1]
    assert [crosses_hosts(degrees, name, EIGHT) for name in degrees] == [True, False, False]
    assert crosses_hosts({"shard": 8}, "shard", EIGHT)
    assert not crosses_hosts({"shard": 8}, "shard", World(1, 8))
    assert data_size(degrees) == 4


def test_groups_share_the_network_of_a_host() -> None:
    assert groups_of_a_host({"replicate": 8}, "replicate", EIGHT) == 1  # one ring through both hosts
    assert groups_of_a_host({"replicate": 2, "shard": 4}, "replicate", EIGHT) == 4  # one for each slice
    assert groups_of_a_host({"replicate": 4, "tensor": 2}, "replicate", EIGHT) == 2
