"""Which side of a split a row falls on: a pure function of its key and a salt.

    digest   = BLAKE2b(salt + NUL + key, digest_size=8)       salt and key in UTF-8
    fraction = digest as a little-endian integer / 2**64      in [0, 1)
    test where fraction < test_percent / 100, validation where it is below (test + validation) / 100, else train

Nothing else counts, not the other rows and not their order, so a row never changes sides when data grows; and nothing
of it depends on a library's version or on the machine. The key counts as text: 7 and "7" are the same key, because a
CSV file cannot tell them apart and a data set may change its format.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from drivetrain.data.arrow import Array, arrow, numpy

DIGEST_BYTES = 8
# Duplicates are looked for in parts of about this many keys, since sorting takes twice the memory of what it sorts.
PART_KEYS = 1 << 21
PARTS_AT_ONCE = 2
# The table that rules hashes out has so many places a wanted hash, of at least and at most so many bits.
_PLACES_EACH, _LEAST_BITS, _MOST_BITS = 16, 22, 26
_AT_ONCE = 1 << 16


def key_digests(keys: Iterable[bytes], salt: str) -> bytes:
    """The digests of the keys, one after the other."""
    copy = hashlib.blake2b(salt.encode() + b"\0", digest_size=DIGEST_BYTES).copy
    # The fastest of what was tried; BLAKE2b in numpy, all rows at a time, takes twice as long.
    return b"".join([(digest := copy()).update(key) or digest.digest() for key in keys])


def threshold(percent: int) -> int:
    """The digest below which `percent` of all digests lie."""
    return (percent << 64) // 100


def key_hashes(keys: Array, salt: str) -> Array:
    """The digests of a key column (integers or text, without nulls) as unsigned 64-bit integers."""
    pa = arrow()
    text = keys.cast(pa.string()).cast(pa.binary())
    digests = array("Q", key_digests(text.to_pylist(), salt))
    if sys.byteorder == "big":
        digests.byteswap()
    return pa.Array.from_buffers(pa.uint64(), len(digests), [None, pa.py_buffer(digests)])


def below(hashes: Array, percent: int) -> Array:
    """Mask of the hashes in the lowest `percent` (0 to 99)."""
    pa = arrow()
    return pa.compute.less(hashes, pa.scalar(threshold(percent), pa.uint64()))


def among(hashes: Array, wanted: Array) -> Any:
    """Those of the hashes that are among others, which are few; uint64, in their order.

    Most are ruled out by their first bits, with a table that says which of these are wanted. Batches and tables are
    small where they can be, so that both stay in a processor's cache.
    """
    np = numpy()
    wanted = np.sort(np.asarray(wanted, "<u8"))
    bits = min(max(_LEAST_BITS, (_PLACES_EACH * len(wanted)).bit_length()), _MOST_BITS)
    table = np.zeros(1 << bits, bool)
    table[wanted >> np.uint64(64 - bits)] = True
    # Written into again and again: new memory would be cleared by the system each time.
    first, is_likely = np.empty(_AT_ONCE, "<u8"), np.empty(_AT_ONCE, bool)
    likely = [np.empty(0, "<u8")]
    for start in range(0, len(hashes) if len(wanted) else 0, _AT_ONCE):
        part = np.asarray(hashes[start : start + _AT_ONCE])
        places = np.right_shift(part, np.uint64(64 - bits), out=first[: len(part)]).view("<i8")
        likely.append(part[np.flatnonzero(table.take(places, out=is_likely[: len(part)], mode="clip"))])
    found = np.concatenate(likely)
    if not len(found):
        return found
    places = np.minimum(np.searchsorted(wanted, found), len(wanted) - 1)
    return found[wanted[places] == found]


class RepeatedHashes:
    """Finds hashes that occur more than once. Holds 8 bytes a key, and twice that of a part while it looks."""

    def __init__(self) -> None:
        self.hashes: list[Array] = []
        self._count = 0

    def add(self, hashes: Array) -> None:
        self.hashes.append(hashes)
        self._count += len(hashes)

    def find(self) -> Iterator[Array]:
        """Arrays of hashes that occur more than once; each hash is in one of them."""
        num_parts = 1 << (self._count // PART_KEYS).bit_length()
        step = (1 << 64) // num_parts
        with ThreadPoolExecutor(PARTS_AT_ONCE) as threads:
            starts = range(0, num_parts * step, step)
            for repeated in threads.map(self._repeated, starts, [step] * num_parts):
                if len(repeated):
                    yield repeated

    def _repeated(self, start: int, step: int) -> Array:
        np = numpy()
        last = start + step - 1
        parts = (each.to_numpy() for each in self.hashes)
        ordered = np.concatenate([np.empty(0, "<u8"), *(part[(part >= start) & (part <= last)] for part in parts)])
        ordered.sort()
        return arrow().array(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]))
