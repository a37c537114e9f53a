"""Assign rows to the sides of a split, by a pure function of key and salt.

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
from collections.abc import Iterable

from drivetrain.data.arrow import Array, arrow

DIGEST_BYTES = 8


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
