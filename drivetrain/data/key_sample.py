"""The keys of a data set by their hashes, so that two sets can be asked for keys that both have: `keys` in a manifest.

    "keys": {"column": "id", "hashes": "<base64>", "below": 23456248059221}

`hashes` has 6 bytes of each hash, little-endian, in their order: of all keys where they are at most 8,192, else of
those whose hash is less than `below` (of 2**48). Of two sets those below the lesser bound are compared, which is exact
for the keys there. Where this is the share p of all, x shared keys are overlooked with the probability (1 - p)**x. Two
keys have the same hash by chance once in 2**48. Keys count as text: 7 and "7" are the same key, as in a split.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Array, arrow, numpy
from drivetrain.data.sketches import as_integers, mixed

MOST = 8192
_BYTES = 6
_ALL = 1 << 8 * _BYTES


class Shared(NamedTuple):
    """Keys of a set that another one has, too, of as many as were compared."""

    keys: int
    compared: int
    share: float
    """The share of all hashes, and so of the keys of either set."""


class KeySample:
    """The hashes of a set's keys that are less than `below`."""

    def __init__(self, column: str, hashes: Any = None, below: int = _ALL) -> None:
        self.column = column
        self._hashes = numpy().empty(0, "<u8") if hashes is None else hashes
        self._below = below

    @classmethod
    def read(cls, entry: Mapping[str, Any], where: str) -> KeySample:
        """
        Args:
            entry: `keys` of a manifest.
            where: it stands, for messages.

        Raises:
            InputError: it is damaged.
        """
        np = numpy()
        try:
            kept = np.frombuffer(base64.b64decode(entry["hashes"], validate=True), "u1").reshape(-1, _BYTES)
            hashes = np.zeros((len(kept), 8), "u1")
            hashes[:, :_BYTES] = kept
            return cls(str(entry["column"]), hashes.view("<u8").ravel(), int(entry.get("below", _ALL)))
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise InputError(f"the keys in {where} are damaged ({error!r}). Prepare the data again.") from None

    def add(self, keys: Array) -> None:
        """Take in keys: integers or text, without nulls."""
        np = numpy()
        hashes = mixed(as_integers(keys.cast(arrow().string()))) >> np.uint64(64 - 8 * _BYTES)
        self._hashes = np.union1d(self._hashes, hashes[hashes < np.uint64(self._below)])
        if len(self._hashes) > MOST:
            self._below = int(self._hashes[MOST])
            self._hashes = self._hashes[:MOST]

    def entry(self) -> dict[str, Any]:
        """As a manifest has it."""
        kept = self._hashes.astype("<u8").view("u1").reshape(-1, 8)[:, :_BYTES]
        bound = {"below": self._below} if self._below < _ALL else {}
        return {"column": self.column, "hashes": base64.b64encode(kept.tobytes()).decode(), **bound}

    def shared(self, other: KeySample) -> Shared | None:
        """The keys of this set that the other one has, too; None where other columns name their rows."""
        if self.column != other.column:
            return None
        np = numpy()
        below = min(self._below, other._below)
        ours, theirs = (each._hashes[each._hashes < np.uint64(below)] for each in (self, other))
        return Shared(len(np.intersect1d(ours, theirs)), len(ours), below / _ALL)
