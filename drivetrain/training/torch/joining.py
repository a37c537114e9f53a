"""How torch's processes meet: the device of each, and the group over which they talk."""

from __future__ import annotations

import importlib
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from drivetrain.base.errors import InputError
from drivetrain.training.group import Group, tcp
from drivetrain.training.group.gloo import GlooGroup, give_way, use_one_gloo_worker
from drivetrain.training.process import Process

# The library that moves the tensors of a device. Tensors on the CPU travel also if GPUs compute.
BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
# Backends that torch does not bring: the module that registers one when it is imported.
IMPORTED = {"smddp": "smdistributed.dataparallel.torch.torch_smddp"}
_TCP = "drivetrain/tcp"


def device(local_rank: int) -> torch.device:
    """The device of the process `local_rank` of a host."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    found = torch.device("cuda", local_rank)
    torch.cuda.set_device(found)
    torch.backends.cudnn.deterministic = True  # the same training gives the same bytes
    return found


def join(process: Process, timeout: float, backend: str = "") -> Group:
    """The group of all processes, by the variables that torchrun sets.

    Args:
        backend: one of `IMPORTED`, which then moves all tensors; the processes talk over plain TCP. (SMDDP allows no
            other backend beside it, and no further groups.)

    Raises:
        InputError: the library of that backend is not installed.
    """
    use_one_gloo_worker()
    if process.device.type == "cpu":
        give_way()
    if not backend:
        dist.init_process_group(BACKENDS[process.device.type], timeout=timedelta(seconds=timeout))
        return GlooGroup(process.rank, process.world_size, timeout)
    import_backend(backend)
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
    return _over_tcp(process, timeout)


def import_backend(backend: str) -> None:
    """
    Raises:
        InputError: its library is not installed.
    """
    try:
        importlib.import_module(IMPORTED[backend])
    except ImportError as error:
        raise InputError(
            f"backend {backend!r} needs {IMPORTED[backend]} ({error}), which only images of AWS hold. Here use the "
            "strategy that the one with this backend is made of (ddp for smddp, fsdp for smddp_fsdp): it gives the "
            "same results."
        ) from error


def _over_tcp(process: Process, timeout: float) -> Group:
    """Rank 0 listens on a free port, which the others read in the store by which torch's group has met."""
    store = dist.PrefixStore(_TCP, dist.distributed_c10d._get_default_store())
    address = os.environ.get("MASTER_ADDR", "127.0.0.1")
    port = 0 if process.is_main else int(store.get("port"))
    meeting = tcp.Meeting(process.rank, process.world_size, address, port, timeout)
    if process.is_main:
        store.set("port", str(meeting.port))
    return meeting.group(timeout)


def sum_tensor(values: Tensor, process: Process) -> Tensor:
    """The sum of `values` over all ranks, on their device, without a copy to the host. Every rank must call it."""
    if process.world_size == 1:
        return values
    total = values.to(process.device, copy=True)
    dist.all_reduce(total)
    return total
