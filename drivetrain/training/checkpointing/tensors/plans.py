"""Who writes what: torch's planning of a distributed checkpoint, with plans that travel as JSON.

Each rank says which pieces of which tensors it holds; a piece that several ranks of one folder hold is given to one of
them. Ranks that hold slices each write what is small and not sliced, too: a step counter that lies in the file of
another rank would make a restart read all of that file, to check it. Ranks of different folders each keep all that
their own folder needs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint._dedup_save_plans import dedup_save_plans
from torch.distributed.checkpoint.default_planner import create_default_local_save_plan
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType

from drivetrain.training.checkpointing.tensors.rank_file import dtype_name, is_nothing
from drivetrain.training.group import Group

_SMALL = 16 << 10
"""Bytes of a tensor that each rank keeps beside its slices."""


def held(tensors: Mapping[str, Tensor], *, is_main: bool) -> list[WriteItem]:
    """What this rank could write."""
    plan = create_default_local_save_plan(dict(tensors), is_main)
    return [item for item in plan.items if not is_nothing(item)]


def share_out(items: list[WriteItem], exchange: Group, folders: Sequence[int]) -> list[WriteItem]:
    """Which of `items` this rank writes. Every rank must call it.

    Args:
        items: what it holds.
        exchange: between the ranks.
        folders: for each rank the first rank that writes into the same folder.
    """
    given = exchange.to_main(json.dumps([_to_json(item) for item in items]).encode())
    parts: list[bytes] | None = None
    if given is not None:
        plans = [SavePlan([_from_json(each) for each in json.loads(data)]) for data in given]
        chosen: list[list[int]] = [[] for _ in plans]
        for folder in sorted(set(folders)):
            ranks = [rank for rank, of in enumerate(folders) if of == folder]
            for rank, plan in zip(ranks, dedup_save_plans([plans[rank] for rank in ranks]), strict=True):
                kept = {item.index for item in plan.items}
                small = _SMALL if any(map(_is_slice, plans[rank].items)) else 0
                chosen[rank] = [
                    number
                    for number, item in enumerate(plans[rank].items)
                    if item.index in kept or (not _is_slice(item) and _bytes_of(item) <= small)
                ]
        parts = [json.dumps(numbers).encode() for numbers in chosen]
    return [items[number] for number in json.loads(exchange.deal(parts))]


def _is_slice(item: WriteItem) -> bool:
    data = item.tensor_data
    assert data is not None
    return data.chunk.sizes != data.size


def _bytes_of(item: WriteItem) -> int:
    data = item.tensor_data
    assert data is not None
    return math.prod(data.chunk.sizes) * data.properties.dtype.itemsize


def _to_json(item: WriteItem) -> list[Any]:
    data = item.tensor_data
    assert data is not None
    return [
        item.index.fqn,
        item.type.name,
        list(data.chunk.offsets),
        list(data.chunk.sizes),
        list(data.size),
        dtype_name(data.properties.dtype, item.index.fqn),
    ]


def _from_json(given: list[Any]) -> WriteItem:
    name, kind, offsets, sizes, shape, dtype = given
    chunk = ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))
    data = TensorWriteData(chunk, TensorProperties(dtype=getattr(torch, dtype)), torch.Size(shape))
    return WriteItem(MetadataIndex(name, offsets), WriteItemType[kind], tensor_data=data)
