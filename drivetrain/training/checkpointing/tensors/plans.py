"""Share out the writing of pieces among ranks.

Each rank lists the pieces of tensors that it holds. If several ranks of one folder hold a piece, the rank with the
least to write so far writes it, as in torch.distributed.checkpoint. Ranks that hold slices each write small unsliced
tensors, too: a step counter in the file of another rank would make a restart read and check all of that file. Ranks of
different folders each keep all that their own folder needs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from drivetrain.training.checkpointing.tensors.index import DTYPES, Sizes
from drivetrain.training.checkpointing.tensors.pieces import Piece
from drivetrain.training.group import Group

_SMALL = 16 << 10
"""Bytes of a tensor that each rank keeps beside its slices."""
_Place = tuple[str, Sizes]


def share_out(pieces: list[Piece], group: Group, folders: Sequence[int]) -> list[Piece]:
    """Choose the pieces that this rank writes. Every rank must call it.

    Args:
        pieces: what it holds.
        group: the ranks.
        folders: for each rank the first rank that writes into the same folder.
    """
    listed = [[piece.name, piece.dtype, piece.shape, piece.offsets, piece.sizes] for piece in pieces]
    given = group.to_main(json.dumps(listed).encode())
    parts: list[bytes] | None = None
    if given is not None:
        held = [
            [
                Piece(name, dtype, tuple(shape), tuple(offsets), tuple(sizes))
                for name, dtype, shape, offsets, sizes in json.loads(data)
            ]
            for data in given
        ]
        chosen: list[list[int]] = [[] for _ in held]
        for folder in sorted(set(folders)):
            ranks = [rank for rank, of in enumerate(folders) if of == folder]
            for rank, kept in zip(ranks, _dealt([held[rank] for rank in ranks]), strict=True):
                small = _SMALL if any(piece.is_slice for piece in held[rank]) else 0
                chosen[rank] = [
                    number
                    for number, piece in enumerate(held[rank])
                    if (piece.name, piece.offsets) in kept or (not piece.is_slice and piece.num_bytes <= small)
                ]
        parts = [json.dumps(numbers).encode() for numbers in chosen]
    return [pieces[number] for number in json.loads(group.deal(parts))]


def _dealt(held: list[list[Piece]]) -> list[set[_Place]]:
    """Each piece to one of the ranks that hold it."""
    holders: dict[_Place, list[int]] = {}
    bytes_of: dict[_Place, int] = {}
    for rank, pieces in enumerate(held):
        for piece in pieces:
            place = piece.name, piece.offsets
            holders.setdefault(place, []).append(rank)
            # Of the whole tensor, also for a slice: the others of that tensor then go to other ranks.
            bytes_of[place] = math.prod(piece.shape) * DTYPES[piece.dtype][1] or 1
    kept: list[set[_Place]] = [set() for _ in held]
    load = [0] * len(held)
    for place, ranks in holders.items():
        least = min(ranks, key=lambda rank: load[rank])
        load[least] += bytes_of[place]
        kept[least].add(place)
    return kept
