"""Every group of gloo has one thread that completes its collectives: two of them corrupt the heap."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from drivetrain.training.launch.processes import collectives
from drivetrain.training.loop.agreement import Agreement
from drivetrain.training.process import Process
from drivetrain.training.torch.parallel.layout import lay_out


def threads_of_all_groups(process: Process) -> dict[str, int]:
    """Of the group of all ranks, those of a mesh and of its slices, and those of messages beside the training."""
    layout = lay_out(process, "hsdp", ("replicate", "shard"), {"replicate": 2, "shard": 2})
    assert layout.mesh is not None
    groups = {
        "all": dist.group.WORLD,
        "shard": layout.mesh["shard"].get_group(),
        "replicate": layout.mesh["replicate"].get_group(),
        "flattened by torch": layout.mesh._flatten().get_group(),
        "checkpoints": process.group.twin().process_group,
        "agreement": Agreement(process)._group.process_group,
    }
    return {name: threads(group) for name, group in groups.items()}


def threads(group: Any) -> int:
    return group._get_backend(torch.device("cpu")).options._threads


def test_every_group_has_one_thread(forked: Any) -> None:
    for found in forked(4, threads_of_all_groups):
        assert found == dict.fromkeys(found, 1)


def loops(process: Process) -> list[int]:
    """How many threads of this process look for news from other ranks, after each of three more groups."""
    found: list[int] = []
    for _ in range(3):
        dist.new_group()
        names = [file.read_text() for file in Path("/proc/self/task").glob("*/comm")]
        found.append(sum(name.startswith("gloo_tcp_loop") for name in names))
    return found


def test_all_groups_of_a_process_share_one_polling_thread(forked: Any) -> None:
    """Each wakes up 100 times a second, in each rank."""
    assert forked(2, loops) == [[1, 1, 1]] * 2


def modes(process: Process) -> dict[str, int]:
    """How the kernel schedules the threads of gloo."""
    tasks = {file.parent.name: file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")}
    return {name: os.sched_getscheduler(int(task)) for task, name in tasks.items() if "gloo" in name}


def test_gloo_threads_run_in_batch_mode(forked: Any) -> None:
    """Where ranks fill all cores their polling cost a fifth of a small step."""
    for found in forked(2, modes):
        assert found and set(found.values()) == {os.SCHED_BATCH}


def many_at_once(process: Process, count: int) -> list[float]:
    """Collectives of two sorts under way at the same time: one's name is longer than std::string holds in place."""
    lay_out(process, "fsdp", ("shard",), {"shard": 1})
    everyone = dist.group.WORLD
    assert everyone is not None
    assert threads(everyone) == 1
    functional, one = torch.ops._c10d_functional, torch.ones(4)
    results: list[Tensor] = []
    for _ in range(count // 100):
        results = [
            work
            for _ in range(50)
            for work in (
                functional.all_gather_into_tensor(one, 1, everyone.group_name),
                functional.all_reduce(one, "sum", everyone.group_name),
            )
        ]
        for result in results:
            functional.wait_tensor(result)
    return [float(result.sum()) for result in results]


@pytest.mark.slow
def test_many_collectives_at_once_leave_the_heap_as_it_was(forked: Any) -> None:
    """(With two threads every other such process is aborted: "malloc(): unaligned tcache chunk detected".)"""
    assert forked(1, many_at_once, 100_000) == [[4.0] * 100]


def abort(process: Process) -> None:
    if process.rank == 1:
        os.abort()
    process.barrier()


@pytest.mark.parametrize("ranks", ["forked", "pooled"])
def test_an_aborted_rank_reports_its_position(ranks: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(AssertionError, match=r"(?s)rank 1:.*SIGABRT.*in abort") as failure:
        request.getfixturevalue(ranks)(2, abort)
    assert "most recent call first" in str(failure.value)


def look_beside_a_group(process: Process) -> list[str]:
    """Rank 1 has made a group that it is no member of."""
    group = dist.new_group([0])
    dist.all_reduce(torch.ones(1))
    if process.is_main:
        dist.destroy_process_group(group)
    return [type(collectives.begun()).__name__]


def test_a_nonmember_of_a_group_still_reports_its_progress(forked: Any) -> None:
    assert forked(2, look_beside_a_group) == [["list"], ["list"]]
