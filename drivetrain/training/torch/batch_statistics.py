"""Batch normalization over the samples of all ranks instead of each rank's part of the batch (torch's SyncBatchNorm).

C. Peng et al., "MegDet: A Large Mini-Batch Object Detector", CVPR 2018, section 3.3.
"""

from __future__ import annotations

import torch.distributed as dist
from torch import nn

from drivetrain.base.degrees import DATA_DIMENSIONS
from drivetrain.base.errors import InputError
from drivetrain.training.layout import Layout


def synchronize_batch_statistics(model: nn.Module, layout: Layout, strategy: str) -> nn.Module:
    """`model` with every batch normalization replaced by one that looks across the ranks of its samples.

    Raises:
        InputError: a layout with stages. Every rank raises it.
    """
    if layout.degrees.get("stage", 1) > 1:
        raise InputError(
            f"sync_batchnorm=True with strategy {strategy!r}: ranks of other stages do not come to the same layers, "
            "and would be waited for. Leave it off, or use strategy 'ddp' or 'fsdp'."
        )
    if layout.data_size == layout.degrees.get("context", 1) == 1:
        return model  # each rank has all samples
    return nn.SyncBatchNorm.convert_sync_batchnorm(model, _group(layout))


def _group(layout: Layout) -> dist.ProcessGroup | None:
    """The ranks that together hold each sample of the batch once; None for all ranks."""
    if layout.degrees.get("tensor", 1) == 1:
        return None
    # Ranks that share the work on a matrix have the same samples, which must not count once for each.
    (dimension,) = (name for name in DATA_DIMENSIONS if layout.degrees.get(name, 1) > 1)
    assert layout.mesh is not None
    return layout.mesh[dimension].get_group()
