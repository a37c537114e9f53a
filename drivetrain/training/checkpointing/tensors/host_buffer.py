"""Memory of the host in which a rank's tensors are laid out as one safetensors file, ready to be written in one go.

It is allocated and touched once, so that a save is a copy and nothing else; it starts at a page, and so does the data
in it, so that a file system can take it without a copy of its own (O_DIRECT). Where there is a GPU a framework
registers it with the driver: copies from the device then run at the speed of the bus, and need no memory in between.

The format: https://huggingface.co/docs/safetensors (8 bytes of length, a JSON header, numbers without gaps).
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable

import numpy as np

PAGE = 4096

Pin = Callable[[int, int], Callable[[], None] | None]


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
