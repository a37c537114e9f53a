"""Over whose samples a batch normalization looks, where it is told to look across ranks."""

from __future__ import annotations

from typing import Any

import pytest
import torch.distributed as dist
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process
from drivetrain.training.torch.batch_statistics import synchronize_batch_statistics
from drivetrain.training.torch.parallel.layout import lay_out


def looks_across(process: Process, degrees: dict[str, int]) -> list[int]:
    """The ranks that a batch normalization asks."""
    layout = lay_out(process, "x", tuple(degrees), degrees)
    model = synchronize_batch_statistics(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), layout, "x")
    norm = model.get_submodule("1")
    if not isinstance(norm, nn.SyncBatchNorm):
        return []
    return dist.get_process_group_ranks(norm.process_group or dist.group.WORLD)


@pytest.mark.parametrize(
    ("degrees", "ranks"),
    [
        ({"replicate": 4}, [[0, 1, 2, 3]] * 4),
        ({"replicate": 2, "shard": 2}, [[0, 1, 2, 3]] * 4),
        ({"replicate": 2, "context": 2}, [[0, 1, 2, 3]] * 4),  # each has other positions
        ({"shard": 2, "tensor": 2}, [[0, 2], [1, 3], [0, 2], [1, 3]]),
        ({"tensor": 4}, [[]] * 4),
        ({"stage": 1, "replicate": 4}, [[0, 1, 2, 3]] * 4),
    ],
    ids=str,
)
def test_each_sample_counts_once(degrees: dict[str, int], ranks: list[list[int]], pooled: Any) -> None:
    assert pooled(4, looks_across, degrees) == ranks


def refused(process: Process) -> str:
    with pytest.raises(InputError) as caught:
        looks_across(process, {"stage": 2, "replicate": 1})
    return str(caught.value)


def test_stages_cannot_synchronize_batch_statistics(pooled: Any) -> None:
    for message in pooled(2, refused):
        assert message.startswith("sync_batchnorm=True with strategy 'x': ranks of other stages")
        assert "use strategy 'ddp' or 'fsdp'" in message
