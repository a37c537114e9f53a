"""The ranks of a probe: processes of this machine in one group, the first of which gives the answer."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from drivetrain.training.group.gloo import GlooGroup, give_way, group_timeout, use_one_gloo_worker
from drivetrain.training.process import Process
from drivetrain.training.torch.joining import BACKENDS

STORE = "store"
"""The file below `scratch` over which ranks meet; each meeting needs a new one."""


def answer(rank: Callable[..., NoReturn], arguments: list[str], method: str = "fork") -> dict[str, Any]:
    """What the first of `rank(number, processes, answers, arguments)` puts into `answers`, and on what that was.

    Raises:
        SystemExit: a rank failed.
    """
    processes = torch.cuda.device_count() or 2
    context: Any = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    ranks = [context.Process(target=rank, args=(n, processes, answers, arguments)) for n in range(processes)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join()
        if one.exitcode:
            raise SystemExit(f"a rank ended with {one.exitcode}")
    return {**answers.get(), "processes": processes, "device": "GPU" if torch.cuda.is_available() else "CPU"}


def join(number: int, processes: int, scratch: Path) -> Process:
    """This process as a rank, in a group with the others."""
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", number) if cuda else torch.device("cpu")
    os.environ |= {"RANK": str(number), "WORLD_SIZE": str(processes), "GLOO_SOCKET_IFNAME": "lo"}
    if cuda:
        torch.cuda.set_device(device)
    store = dist.FileStore(str(scratch / STORE), processes)
    # As the product's ranks do.
    give_way()
    use_one_gloo_worker()
    dist.init_process_group(BACKENDS[device.type], store=store, rank=number, world_size=processes)
    group = GlooGroup(number, processes, group_timeout().total_seconds())
    return Process(number, processes, number, processes, device, group)


def leave(process: Process, answers: Any, found: dict[str, Any]) -> NoReturn:
    """End with this answer."""
    if process.is_main:
        answers.put(found)
    process.barrier()
    os._exit(0)
