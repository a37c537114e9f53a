"""How torch's processes meet: the device of each, and the group over which they talk."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from drivetrain.training.group import Group
from drivetrain.training.group.gloo import GlooGroup, use_one_gloo_worker
from drivetrain.training.process import Process

# Which library moves the tensors of which device. What lies on the CPU travels also where GPUs compute.
BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}


def device(local_rank: int) -> torch.device:
    """What the process `local_rank` of a host computes on."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    found = torch.device("cuda", local_rank)
    torch.cuda.set_device(found)
    torch.backends.cudnn.deterministic = True  # the same training gives the same bytes
    return found


def join(process: Process, timeout: float) -> Group:
    """The group of all processes, by the variables that torchrun sets."""
    use_one_gloo_worker()
    dist.init_process_group(BACKENDS[process.device.type], timeout=timedelta(seconds=timeout))
    return GlooGroup(process.rank, process.world_size, timeout)


def sum_tensor(values: Tensor, process: Process) -> Tensor:
    """The sum of `values` over all ranks, on their device, without a copy to the host. Every rank must call it."""
    if process.world_size == 1:
        return values
    total = values.to(process.device, copy=True)
    dist.all_reduce(total)
    return total
