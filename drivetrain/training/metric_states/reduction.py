"""One all_reduce of all that ranks counted, which also tells every rank of an error of any of them. What the replicates
of a bootstrap counted follows in a second one.

A vector begins with a slot for each rank, in which a rank that failed leaves its message: no other rank writes there,
so the sum over the ranks has it as it was. So every rank learns of an error in the collective that it comes to anyway,
and none waits for one that has left.
"""

from __future__ import annotations

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Ints
from drivetrain.training.process import Process

# Of a message, where there are few ranks; and of all slots together, where there are very many.
_LONGEST = 1024
_ALL_SLOTS = 1 << 20
_SHOWN = 3


def header_size(world_size: int) -> int:
    """Cells of all slots."""
    return world_size * _slot_size(world_size)


def leave_message(header: Ints, rank: int, world_size: int, message: str) -> None:
    """Put the message of a rank that failed into its slot, cut to its length; `header` has shape [header_size]."""
    size = _slot_size(world_size)
    room = 8 * size
    data = (message.replace("\0", " ").strip() or "no reason was given").encode(errors="replace")
    if len(data) > room:
        data = data[: room - 3].decode(errors="ignore").encode() + "…".encode()
    header[rank * size : (rank + 1) * size] = np.frombuffer(data.ljust(room, b"\0"), dtype="<i8")


def raise_messages(header: Ints, world_size: int) -> None:
    """
    Args:
        header: the sum over all ranks.

    Raises:
        InputError: a rank has left a message. The error names the first such ranks, and is the same on every rank.
    """
    if not header.any():
        return
    slots = header.astype("<i8").reshape(world_size, -1)
    failed = np.flatnonzero(slots.any(axis=1)).tolist()
    found: dict[str, int] = {}
    for rank in failed:  # ranks of one replica, and often all, fail alike
        found.setdefault(slots[rank].tobytes().rstrip(b"\0").decode(errors="replace"), rank)
    if world_size == 1 or (len(found) == 1 and len(failed) == world_size):
        raise InputError(next(iter(found)))
    lines = [f"rank {rank} of {world_size}: {message}" for message, rank in list(found.items())[:_SHOWN]]
    more = [f"({len(failed)} ranks failed.)"] if len(failed) > len(lines) else []
    raise InputError("\n".join(lines + more))


def reduce(process: Process, vector: Ints) -> int:
    """Add up the vectors of all ranks, in place; returns how many collectives that took.

    Every rank must call it, with a vector of one length.
    """
    if process.world_size == 1:
        return 0
    process.group.sum(vector)
    return 1


def _slot_size(world_size: int) -> int:
    return max(32, min(_LONGEST, _ALL_SLOTS // world_size)) // 8
