"""The common part of the strategies over Horovod: how it is started, and what travels together."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.launch import horovod as launch
from drivetrain.training.process import Process

# Framework -> the strategy over Horovod, and the same without Horovod.
STRATEGIES = {"torch": ("horovod", "ddp"), "tensorflow": ("tf_horovod", "tf_multi_worker")}


def start(framework: str, process: Process) -> Any:
    """horovod.torch or horovod.tensorflow in the processes that have joined, over gloo; every rank must call it,
    whatever launched them.

    Raises:
        InputError: Horovod is not installed, or not built for `framework`.
    """
    try:
        horovod = importlib.import_module(f"horovod.{framework}")
    except ImportError as error:
        raise InputError(refusal(framework, str(error))) from error
    if not hasattr(horovod, "init"):  # horovod.torch is imported all the same, with a warning
        raise InputError(refusal(framework, f"the installed one was built without {framework}"))
    if horovod.is_initialized():
        return horovod
    with ExitStack() as stack:
        port = ""
        if process.is_main:
            port = str(stack.enter_context(launch.rendezvous(process.world_size, process.local_world_size)))
        port = process.broadcast_bytes(port.encode() if port else None).decode()
        address = os.environ.get("MASTER_ADDR", "127.0.0.1")
        interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
        seconds = str(math.ceil(process.group.timeout))
        os.environ |= {
            **launch.place(process.rank, process.world_size, process.local_world_size),
            **launch.meeting(address, int(port), interface),
            # A group of tensors is reduced by itself. Horovod otherwise fuses what happens to be ready, and with three
            # processes or more the order of additions, and so the last bits, would depend on the clock.
            "HOROVOD_DISABLE_GROUP_FUSION": "1",
            # For a process that stands still, and for one that does not come to a collective.
            "HOROVOD_GLOO_TIMEOUT_SECONDS": seconds,
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": seconds,
        }
        horovod.init()
        process.barrier()  # the addresses are kept until all have met
    process.leaving.callback(horovod.shutdown)  # else the last process to end complains of lost connections
    return horovod


def in_groups(tensors: Sequence[tuple[int, Any]], most_mb: float) -> list[list[int]]:
    """Places of tensors that travel together: in the order in which a backward pass is likely to come to them, of one
    type and about `most_mb` MiB a group.

    Args:
        tensors: bytes and type of each, in the order of the model.
    """
    groups: list[list[int]] = []
    filled, last, most_bytes = 0, None, int(most_mb * 2**20)
    for place in reversed(range(len(tensors))):
        size, kind = tensors[place]
        if not groups or filled + size > most_bytes or last != kind:
            groups.append([])
            filled = 0
        groups[-1].append(place)
        filled, last = filled + size, kind
    return groups


def refusal(framework: str, reason: str) -> str:
    strategy, instead = STRATEGIES[framework]
    without = f"Or use strategy {instead}, which needs {framework} alone."
    return f"strategy {strategy!r}: {launch.refusal(reason, framework)} {without}"
