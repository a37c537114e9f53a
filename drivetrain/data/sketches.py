"""Summaries of a column's values in bounded memory: quantiles and the number of different values.

Both sketches are deterministic (the same values in the same pieces give the same sketch), can be merged with others,
and hold about 50 KB. `datasketches` has both, but draws at random.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.data.arrow import Array, arrow, numpy

# A change of what a state says gets another version: an earlier state is not gone on from.
STATE_VERSION = 5
K = 2048
# Beyond so many values, and for each doubling of them, one of twice as many is looked at.
_ALL_VALUES = 1 << 16
_CAPACITY = 2 / 3
_LEAST = 8
# Texts of at most so many times eight bytes are hashed at a time.
_WORDS = 8
# Masks that keep the first 0 to 7 bytes of a word.
_MASKS = [(1 << 8 * count) - 1 for count in range(8)]


class Quantiles:
    """KLL (Karnin, Lang, Liberty 2016, "Optimal quantile approximation in streams") with k = 2,048.

    Items of level h stand for 2**h values each. A level that is full is sorted, and every other item of it goes one
    level up. As in the paper the lowest levels of many values are a sampler: one value of each 2**h that follow one
    another. Ranks are off by less than 0.5 % of the values (tests/unit/data/test_sketches.py), and exact up to 2,048
    values.
    """

    def __init__(self, levels: Sequence[Any] = (), count: int = 0, flips: int = 0) -> None:
        self.count = count
        self._levels = list(levels)
        self._flips = flips

    def add(self, values: Array) -> None:
        """Take in finite float64 values without nulls."""
        np = numpy()
        if not len(values):
            return
        self.count += len(values)
        taken = values.to_numpy(zero_copy_only=False)
        level = max(0, (self.count - 1) // _ALL_VALUES).bit_length()
        if level:
            taken = taken[_one_of_each(1 << level, len(taken), self.count)]
        while len(self._levels) <= level:
            self._levels.append(np.empty(0))
        self._levels[level] = np.concatenate([self._levels[level], taken])
        self._compact()

    def at(self, fractions: Sequence[float]) -> list[float]:
        """The quantiles of all values, between two of them by their distance (the median of 1, 2, 3, 10 is 2.5, as by
        numpy's `linear`); none for no values."""
        np = numpy()
        values, ranks = self._ranked()
        if not len(values):
            return []
        places = np.array(fractions) * (float(ranks[-1]) - 1)
        shares = places - np.floor(places)
        below, above = (values[np.searchsorted(ranks, side(places), side="right")] for side in (np.floor, np.ceil))
        return np.where(below == above, below, below * (1 - shares) + above * shares).tolist()

    def rows_between(self, edges: Sequence[float]) -> list[int]:
        """About how many values lie in each interval between two edges, the last edge included."""
        values, ranks = self._ranked()
        places = numpy().searchsorted(values, edges[1:]).tolist()
        places[-1] = len(values)
        below = [round(float(ranks[place - 1]) / float(ranks[-1]) * self.count) if place else 0 for place in places]
        return [upper - lower for lower, upper in zip([0, *below], below, strict=False)]

    def merge(self, later: Quantiles) -> None:
        """Take in the values of another sketch; the bound on ranks stays, and so do exact ones up to 2,048 values."""
        np = numpy()
        self.count += later.count
        self._flips += later._flips
        for level, items in enumerate(later._levels):
            if level == len(self._levels):
                self._levels.append(np.empty(0))
            self._levels[level] = np.concatenate([self._levels[level], items])
        self._compact()

    def state(self) -> dict[str, Any]:
        """The state of the sketch as JSON, for `restored`."""
        return {"count": self.count, "flips": self._flips, "levels": [packed(level) for level in self._levels]}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Quantiles:
        return cls([unpacked(text) for text in state["levels"]], state["count"], state["flips"])

    def _compact(self) -> None:
        np = numpy()
        while sum(map(len, self._levels)) > sum(self._capacity(level) for level in range(len(self._levels))):
            full = next(level for level, items in enumerate(self._levels) if len(items) > self._capacity(level))
            items = np.sort(self._levels[full])
            if full + 1 == len(self._levels):
                self._levels.append(np.empty(0))
            odd = len(items) % 2
            self._flips += 1
            # In turn the first and the second of each pair, shuffled over the levels: no randomness is needed for a
            # bound on the error, only that errors do not all go one way.
            first = (self._flips * 0x9E3779B97F4A7C15 >> 40) & 1
            self._levels[full + 1] = np.concatenate([self._levels[full + 1], items[odd + first :: 2]])
            self._levels[full] = items[:odd]

    def _capacity(self, level: int) -> int:
        return max(_LEAST, int(K * _CAPACITY ** (len(self._levels) - 1 - level)))

    def _ranked(self) -> tuple[Any, Any]:
        """The items in order, with the number of values up to each, as arrays."""
        np = numpy()
        values = np.concatenate([np.empty(0), *self._levels])
        weights = np.repeat([1 << level for level in range(len(self._levels))], [len(level) for level in self._levels])
        order = np.argsort(values, kind="stable")
        return values[order], np.cumsum(weights[order])


class Distinct:
    """The K smallest of the values' hashes (Bar-Yossef et al. 2002): exact up to 2,048, else with a standard error of
    1 / sqrt(K), 2.2 %."""

    def __init__(self, smallest: Any = None) -> None:
        self._smallest = numpy().empty(0, "<u8") if smallest is None else smallest

    def add(self, values: Array) -> None:
        """Take in values without nulls: numbers, text, dates or time stamps."""
        hashes = mixed(as_integers(values))
        if len(self._smallest) == K:
            hashes = hashes[hashes < self._smallest[-1]]
        self._take_in(hashes)

    def merge(self, later: Distinct) -> None:
        """Take in the values of another sketch: the same as if they had come one after another."""
        self._take_in(later._smallest)

    def smallest(self, count: int) -> Any:
        """The `count` smallest hashes in their order, or as many as there are, as shares of 2**64 in float32."""
        return (self._smallest[:count] * 2.0**-64).astype("<f4")

    @property
    def estimate(self) -> int:
        if len(self._smallest) < K:
            return len(self._smallest)
        return round((K - 1) * 2**64 / int(self._smallest[-1]))

    def state(self) -> str:
        return packed(self._smallest.view("<f8"))

    @classmethod
    def restored(cls, state: str) -> Distinct:
        return cls(unpacked(state).view("<u8"))

    def _take_in(self, hashes: Any) -> None:
        np = numpy()
        if len(hashes):
            found = np.sort(np.concatenate([self._smallest, hashes]))  # numpy.unique takes ten times as long
            self._smallest = found[np.diff(found, prepend=~found[:1]) != 0][:K]


def _one_of_each(stride: int, count: int, seed: int) -> Any:
    """The place of one of each `stride` places that follow one another, drawn by the seed."""
    np = numpy()
    first = np.arange(0, count, stride)
    drawn = mixed(np.arange(seed, seed + len(first), dtype="<u8") << np.uint64(20)) % np.uint64(stride)
    return np.minimum(first + drawn.astype(first.dtype), count - 1)


def as_integers(values: Array) -> Any:
    """Values as unsigned 64-bit integers; equal ones are equal, others mostly differ."""
    pa = arrow()
    kinds = pa.types
    if kinds.is_string(values.type) or kinds.is_binary(values.type):
        return _of_texts(values)
    if kinds.is_floating(values.type) or kinds.is_decimal(values.type):
        # A zero may have a sign.
        return (values.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0).view("<u8")
    if kinds.is_temporal(values.type):
        values = values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
    wide = values.cast(pa.uint64() if kinds.is_uint64(values.type) else pa.int64())
    return wide.to_numpy(zero_copy_only=False).view("<u8")


def _of_texts(values: Array) -> Any:
    """Texts eight bytes at a time; long ones by BLAKE2b, for then reading them takes the time."""
    np = numpy()
    if not len(values):
        return np.empty(0, "<u8")
    _, bounds, content = values.buffers()
    bounds = np.frombuffer(bounds, "<i4")[values.offset : values.offset + len(values) + 1].astype("<i8")
    data = np.zeros(bounds[-1] - bounds[0] + 8, "u1")  # the last eight bytes from any place are within
    if content is not None:
        data[:-8] = np.frombuffer(content, "u1")[bounds[0] : bounds[-1]]
    words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)
    found = lengths.astype("<u8")
    length = int(lengths[0])
    if 0 < length <= _WORDS * 8 and (lengths == length).all():
        return _of_one_length(data[:-8].reshape(-1, length), found)
    for word in range(_WORDS):
        left = lengths - 8 * word
        whole = (left >= 8) & (lengths <= _WORDS * 8)
        part = (left > 0) & (left < 8) & (lengths <= _WORDS * 8)
        for rows, masks in ((whole, None), (part, _MASKS)):
            count = np.count_nonzero(rows)
            if not count:
                continue
            chosen = slice(None) if count == len(rows) else np.flatnonzero(rows)
            taken = words[starts[chosen] + 8 * word]
            if masks is not None:
                taken &= np.array(masks, "<u8")[left[chosen]]
            found[chosen] = _with_word(found[chosen], taken)
    for row in np.flatnonzero(lengths > _WORDS * 8).tolist():
        text = data[starts[row] : starts[row] + lengths[row]]
        found[row] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return found


def _of_one_length(texts: Any, found: Any) -> Any:
    """The same of texts of one length, such as dates: [rows, bytes]."""
    np = numpy()
    rows, length = texts.shape
    padded = np.zeros((rows, -(-length // 8) * 8), "u1")
    padded[:, :length] = texts
    for word in padded.view("<u8").T:
        found = _with_word(found, word)
    return found


def _with_word(found: Any, word: Any) -> Any:
    np = numpy()
    product = (found ^ word) * np.uint64(0xFF51AFD7ED558CCD)
    return product ^ (product >> np.uint64(32))


def mixed(values: Any) -> Any:
    """SplitMix64's output function (Steele, Lea, Flood 2014)."""
    np = numpy()
    found = values + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found ^= found >> np.uint64(shift)
        found *= np.uint64(factor)
    found ^= found >> np.uint64(31)
    return found


def packed(values: Any) -> str:
    """float64 as text, for `unpacked`."""
    return base64.b64encode(zlib.compress(values.astype("<f8", copy=False).tobytes())).decode()


def unpacked(text: str) -> Any:
    return numpy().frombuffer(zlib.decompress(base64.b64decode(text)), "<f8")
