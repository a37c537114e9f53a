"""Memory of the host in which a rank's tensors are laid out as one safetensors file, ready to be written in one go.

It is allocated and touched once, so that a save is a copy and nothing else; it starts at a page, and so does the data
in it, so that a file system can take it without a copy of its own (O_DIRECT). Where there is a GPU a framework
registers it with the driver: copies from the device then run at the speed of the bus, and need no memory in between.

The format: https://huggingface.co/docs/safetensors (8 bytes of length, a JSON header, numbers without gaps).
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drivetrain.training.checkpointing.tensors.index import DTYPES, Sizes

PAGE = 4096

Pin = Callable[[int, int], Callable[[], None] | None]


@dataclass(frozen=True)
class Layout:
    """A safetensors file before it has its numbers: the header, where each tensor starts in it, and its size."""

    header: bytes
    starts: Mapping[str, int]
    size: int


def lay_out(tensors: Sequence[tuple[str, str, Sizes]]) -> Layout:
    """The file of tensors (key, dtype, shape); data starts at a page, each tensor at a multiple of its numbers' size.

    Raises:
        KeyError: a dtype that is not in `DTYPES`.
    """
    # Wide numbers first: what follows stays aligned without gaps, which the format does not allow.
    ordered = sorted(tensors, key=lambda each: (-DTYPES[each[1]][1], each[0]))
    described: dict[str, object] = {"__metadata__": {"format": "pt"}}
    relative: dict[str, int] = {}
    end = 0
    for key, dtype, shape in ordered:
        tag, itemsize = DTYPES[dtype]
        relative[key] = end
        end += math.prod(shape) * itemsize
        described[key] = {"dtype": tag, "shape": shape, "data_offsets": [relative[key], end]}
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % PAGE)  # the format's own padding
    header = len(text).to_bytes(8, "little") + text
    return Layout(header, {key: len(header) + start for key, start in relative.items()}, len(header) + end)


class HostBuffer:
    """`size` bytes, page-aligned.

    Args:
        for_copies: bring them into memory, and keep them from processes that are forked; for what is written again and
            again.
        pin: registers memory from an address on, of so many bytes, with the device; returns what undoes it, or None
            where the system does not allow it (copies are then slower).
    """

    def __init__(self, size: int, *, for_copies: bool = True, pin: Pin | None = None) -> None:
        self.size = size
        # No large pages: finding them may take seconds where memory is fragmented, and copies are no faster.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.memory = mmap.mmap(-1, max(PAGE, -(-size // PAGE) * PAGE), flags=flags)
        if for_copies:
            # Processes that read data are forked: with these pages they would make the next save copy each of them.
            self.memory.madvise(mmap.MADV_DONTFORK)
            np.frombuffer(self.memory, np.uint8)[:] = 0
        self._unpin = pin(np.frombuffer(self.memory, np.uint8).ctypes.data, len(self.memory)) if pin else None

    def view(self, length: int) -> memoryview:
        """The first `length` bytes."""
        return memoryview(self.memory)[:length]

    def keep_only(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Give memory outside of `ranges` (first byte, number of bytes) back, page by page; it reads as zero then."""
        end = 0
        for start, length in [*sorted(ranges), (len(self.memory), 0)]:
            first, last = -(-end // PAGE) * PAGE, start // PAGE * PAGE
            if last > first:
                self.memory.madvise(mmap.MADV_DONTNEED, first, last - first)
            end = max(end, start + length)

    def release(self) -> None:
        """Unregister it; the memory goes with the last tensor in it."""
        if self._unpin:
            self._unpin()
            self._unpin = None
