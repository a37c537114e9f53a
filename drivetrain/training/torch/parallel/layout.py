"""torch's mesh of a layout: a process group for each group of ranks that differ in one dimension only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import cast

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from drivetrain.training.group.gloo import group_timeout, use_one_gloo_worker
from drivetrain.training.layout import Layout, laid_out
from drivetrain.training.process import Process
from drivetrain.training.torch.joining import BACKENDS


def lay_out(
    process: Process, strategy: str, dimensions: Sequence[str], wanted: Mapping[str, int], *, mesh: bool = True
) -> Layout:
    """As `laid_out`, with torch's mesh if `mesh`.

    Raises:
        InputError: degrees that do not multiply to the number of processes, or that would leave a host.
    """
    layout = laid_out(process, strategy, dimensions, wanted)
    if not mesh or not layout.degrees:
        return layout
    if not dist.is_initialized():  # one process alone: a group of one costs nothing and needs no port
        use_one_gloo_worker()
        dist.init_process_group(BACKENDS[process.device.type], store=dist.HashStore(), rank=0, world_size=1)
    return Layout(process, layout.degrees, _build_mesh(layout), _build_stage_group(layout))


def _build_mesh(layout: Layout) -> DeviceMesh:
    """torch's mesh of a layout. Each group of ranks has the time-out of the group of all: torch would give it one of
    its own, half an hour, in which nobody sees that a peer hangs."""
    process, names, sizes = layout.process, tuple(layout.degrees), tuple(layout.degrees.values())
    timeout, own = group_timeout(), []
    for name in names:
        made = {tuple(ranks): _group(ranks, process, timeout) for ranks in layout.groups(name)}
        own.append(next(group for ranks, group in made.items() if process.rank in ranks))
    if len(names) == 1:
        return DeviceMesh.from_group(own[0], process.device.type, mesh_dim_names=names)
    return DeviceMesh.from_group(
        own, process.device.type, torch.arange(process.world_size).view(sizes), mesh_dim_names=names
    )


def _build_stage_group(layout: Layout) -> dist.ProcessGroup | None:
    """Made here and not where it is needed: that may be on some stages only, and every rank has to take part."""
    if layout.degrees.get("stage", 1) == 1 or layout.stage_size == 1:
        return None
    size, timeout = layout.stage_size, group_timeout()
    stages = [list(range(start, start + size)) for start in range(0, layout.process.world_size, size)]
    made = [_group(ranks, layout.process, timeout) for ranks in stages]
    return made[layout.process.rank // size]


def _group(ranks: list[int], process: Process, timeout: timedelta) -> dist.ProcessGroup:
    """A group of some ranks. Every rank must ask for every group, in the same order."""
    everyone = dist.group.WORLD
    assert everyone is not None
    if len(ranks) == process.world_size:
        return everyone
    made = dist.new_group(ranks, timeout=timeout)
    assert not isinstance(made, int) or process.rank not in ranks  # (other ranks get a sign instead)
    return cast(dist.ProcessGroup, made)
