"""Ranks that talk most are neighbours on a host, without a process started."""

from __future__ import annotations

import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.layout import Layout
from drivetrain.training.process import Process
from drivetrain.training.torch.parallel.layout import lay_out

HOSTS, PROCESSES = 2, 4


def laid_out(rank: int, wanted: dict[str, int]) -> Layout:
    process = Process(rank, HOSTS * PROCESSES, rank % PROCESSES, PROCESSES, torch.device("cpu"))
    return lay_out(process, "any", list(wanted), wanted, mesh=False)


@pytest.mark.parametrize(("size", "local"), [(6, 4), (6, 2), (2, 4), (5, 3)])
def test_uneven_hosts_have_the_degrees_of_all_processes(size: int, local: int) -> None:
    """Every rank has the same, however many processes are on its own host."""
    process = Process(0, size, 0, local, torch.device("cpu"))
    assert lay_out(process, "any", ["replicate"], {"replicate": 0}, mesh=False).degrees == {"replicate": size}


def test_a_host_that_others_cannot_equal_is_refused() -> None:
    process = Process(0, 6, 0, 4, torch.device("cpu"))
    with pytest.raises(InputError, match="needs a multiple of 4 processes, but there are 6 processes"):
        lay_out(process, "any", ["replicate", "shard"], {"replicate": 0, "shard": 0}, mesh=False)


def hosts_of_groups(wanted: dict[str, int], dimension: str) -> list[set[int]]:
    """The hosts of each group of ranks that differ in one dimension only."""
    groups: dict[tuple[int, ...], set[int]] = {}
    for rank in range(HOSTS * PROCESSES):
        index = laid_out(rank, wanted).coordinates
        others = tuple(place for name, place in index.items() if name != dimension)
        groups.setdefault(others, set()).add(rank // PROCESSES)
    return list(groups.values())


@pytest.mark.parametrize(
    "wanted",
    [
        {"stage": 2, "shard": 2, "tensor": 2},
        {"stage": 2, "shard": 0, "tensor": 4},
        {"shard": 4, "tensor": 2},
        {"shard": 0, "tensor": 4},
        {"replicate": 0, "context": 2},
    ],
)
def test_the_innermost_dimension_stays_on_a_host(wanted: dict[str, int]) -> None:
    inner = list(wanted)[-1]
    assert all(len(hosts) == 1 for hosts in hosts_of_groups(wanted, inner))


def test_stages_are_what_crosses_hosts() -> None:
    wanted = {"stage": 2, "shard": 2, "tensor": 2}
    assert all(len(hosts) == 2 for hosts in hosts_of_groups(wanted, "stage"))
    assert all(len(hosts) == 1 for hosts in hosts_of_groups(wanted, "shard"))


@pytest.mark.parametrize("wanted", [{"tensor": 0}, {"stage": 1, "shard": 1, "tensor": 8}])
def test_matrices_are_not_split_across_hosts(wanted: dict[str, int]) -> None:
    with pytest.raises(InputError, match="tensor 8 would leave the host, which has 4 processes"):
        laid_out(0, wanted)
