"""How many positive and negative samples have a score in each of many narrow bins: what curves are made of.

Scores of a trained model crowd near 0 and 1, and 1 - s tells apart what lies near 1 (a softmax of 0.999999 or of
0.9999999). So with a resolution of r, and the distance of a score to the nearer end called x:

    x from 2**-a to 1/2    bins of the one width 2**-r, a = min(r, 8)
    x from 2**-e to 2**-a  2**(r - a) bins to each power of two, e = min(64, 8 r): as a float's exponent and first bits
    x above 0, below 2**-e one bin
    x = 0; x = 1/2         a bin each

The bins of scores below and above 1/2 mirror each other. Bins that can hold one float64 only (0, 1/2, 1, and those near
1 that are narrower than the float64 there) are known to hold ties, and cost a bound nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Counts, Floats, Ints, Samples
from drivetrain.training.metric_states import checks
from drivetrain.training.metric_states.ranking import margin_bins
from drivetrain.training.task import Kind, RankedBy, Task

FINEST = 16
"""The resolution where memory allows: 93,701 bins, 1.5 MB of counts a class."""
CELLS = 1 << 21
"""Cells of a histogram of all classes, at most, unless a resolution is asked for: 16 MB."""
_LARGEST = 22
# Float64 between 1/2 and 1 are 2**-53 apart.
_STEP = 53
# Scores that are looked at together: what is made of them on the way stays in the processor's cache.
_BLOCK = 1 << 14


class _Bins(NamedTuple):
    """The bins of a resolution."""

    resolution: int
    ends: int
    """From 2**-ends on bins are of one width."""
    octaves: int
    """Powers of two below that."""
    bits: int
    """2**bits bins to each of them."""
    base: int
    """The first bin of the one width."""
    middle: int
    """The bin of 1/2."""
    number: int


@cache
def _bins(resolution: int) -> _Bins:
    ends = min(resolution, 8)
    octaves, bits = min(64, 8 * resolution) - ends, resolution - ends
    base = 2 + (octaves << bits)
    middle = base + (1 << resolution >> 1) - (1 << bits)
    return _Bins(resolution, ends, octaves, bits, base, middle, 2 * middle + 1)


def number_of_bins(resolution: int) -> int:
    return _bins(resolution).number


def bins_of(scores: NDArray[Any], resolution: int) -> Ints:
    """The bin of each score, in the order of the scores; float32 and float64 of one value have one bin.

    Args:
        scores: floats of any shape, from 0 to 1.
    """
    given = np.asarray(scores) if scores.dtype == np.float32 else np.asarray(scores, np.float64)
    flat = given.reshape(-1)
    found = np.empty(flat.shape, np.int64)
    for start in range(0, len(flat), _BLOCK):
        part = slice(start, start + _BLOCK)
        found[part] = _bins_of_block(flat[part], resolution)
    return found.reshape(given.shape)


@lru_cache(maxsize=8)
def _columns(resolution: int, kind: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The lower end of the bins of one width, and a one: a block of each, for numpy compares a number with an array
    several times slower than two arrays."""
    edge = np.full(_BLOCK, 2.0 ** -_bins(resolution).ends, kind)
    return edge, np.ones(_BLOCK, np.int32 if kind == np.float32 else np.int64)


def _bins_of_block(given: NDArray[Any], resolution: int) -> Ints:
    """Bins of scores of shape [n], n up to _BLOCK."""
    bins = _bins(resolution)
    edge, one = (column[: len(given)] for column in _columns(resolution, given.dtype))
    mantissa, bias = (23, 127) if given.dtype == np.float32 else (52, 1023)
    # Exact in both types: up to 1/2 it is the score, and from there on 1 - score is (Sterbenz).
    x = 1 - given
    np.minimum(given, x, out=x)
    x += 0  # of -0.0 makes 0.0
    # Floats above 0 are ordered as their bits are: exponent and first bits of the mantissa, counted from 2**-e on.
    # No np.where and no masks: the processor cannot predict such branches.
    first = (bias - bins.ends - bins.octaves << bins.bits) - 2
    least = np.minimum(x.view(one.dtype), one)  # 0 of 0, else 1
    least += first
    near = np.minimum(x, edge).view(one.dtype)
    near >>= mantissa - bins.bits
    np.maximum(near, least, out=near)
    np.maximum(x, edge, out=x)
    x *= given.dtype.type(1 << bins.resolution)
    near += x.astype(one.dtype)
    near -= first + (1 << bins.bits) + bins.middle  # now 0 for 1/2, and less for all others
    np.subtract(given, given.dtype.type(0.5), out=x)
    side = x.view(one.dtype)
    side >>= 8 * given.itemsize - 1  # -1 below 1/2, else 0
    side |= 1
    near *= side
    return np.subtract(bins.middle, near, out=near)


@lru_cache(maxsize=8)
def lower_edges(resolution: int) -> Floats:
    """The least score of each bin, up to rounding near 1, of shape [bins]: 0.0, 5e-324, 2**-e, ..., 1.0."""
    bins = _bins(resolution)
    step = 1 << bins.bits
    octave, part = np.divmod(np.arange(bins.octaves << bins.bits), step)
    tails = np.ldexp(1.0 + part / step, octave - bins.ends - bins.octaves)
    even = np.arange(step, 1 << bins.resolution >> 1) / (1 << bins.resolution)
    low = np.concatenate([[0.0, 5e-324], tails, even, [0.5]])
    # A mirrored bin begins above the end of its image.
    return np.concatenate([low, np.nextafter(1.0 - low[:0:-1], 1.0)])


@lru_cache(maxsize=8)
def bins_of_ties(resolution: int) -> NDArray[np.bool_]:
    """Mask of the bins that hold one float64 at most, so that all their samples tie; shape [bins]."""
    bins = _bins(resolution)
    ties = np.zeros(bins.number, bool)
    ties[[0, bins.middle, -1]] = True
    # Near 1 a bin from 2**-k on is 2**-(k + bits) wide.
    narrow = bins.ends + bins.octaves - (_STEP - bins.bits) + 1
    if narrow > 0:
        ties[-(2 + (min(narrow, bins.octaves) << bins.bits)) :] = True
    return ties


def resolution_for(task: Task, cells: int = CELLS, finest: int = FINEST) -> int:
    """The resolution, up to `finest`, whose histogram of the task has at most `cells` cells; at least 1."""
    sizes = ((r, ScoreHistogram.of(task, r).size) for r in range(finest, 1, -1))
    return next((resolution for resolution, size in sizes if size <= cells), 1)


@dataclass(frozen=True)
class ScoreHistogram:
    """Cells (class, positive?, bin); the one class of binary, each class against the rest, or each label."""

    kind: Kind
    num_classes: int
    resolution: int
    ranked_by: RankedBy = "probabilities"

    @classmethod
    def of(cls, task: Task, resolution: int = 0) -> ScoreHistogram:
        """The tally of a task; 0 for the finest resolution that leaves memory for its classes."""
        return cls(task.kind, task.num_classes, resolution or resolution_for(task), task.ranked_by)

    @property
    def columns(self) -> int:
        """The number of score columns: one for binary, else one a class."""
        return 1 if self.kind == "binary" else self.num_classes

    @property
    def size(self) -> int:
        return 2 * self.columns * self.bins

    @property
    def bins(self) -> int:
        """The bins of each column and side."""
        of = number_of_bins if self.ranked_by == "probabilities" else margin_bins.number_of_bins
        return of(self.resolution)

    def bins_of(self, ranked: NDArray[Any]) -> Ints:
        """The bin of each probability or margin, in their shape."""
        return (bins_of if self.ranked_by == "probabilities" else margin_bins.bins_of)(ranked, self.resolution)

    def lower_edges(self) -> Floats:
        """The least score of each bin, for people: of log-odds their probability. Shape [bins]."""
        if self.ranked_by == "probabilities":
            return lower_edges(self.resolution)
        return shown(self.ranked_by, margin_bins.lower_edges(self.resolution))

    def ties(self, few: tuple[float, ...] | None = None) -> NDArray[np.bool_]:
        """Mask of the bins that hold ties only: those of one number, or if only these `few` exist, of one of these.
        Shape [bins]."""
        if few is not None:
            return _bins_of_one_score(self, few)
        return (bins_of_ties if self.ranked_by == "probabilities" else margin_bins.bins_of_ties)(self.resolution)

    def count(self, samples: Samples) -> Counts:
        """
        Raises:
            InputError: a score that is NaN or no probability, a margin that is not finite, or a target that is no
                class.
        """
        targets = checks.class_targets(samples, self.kind, self.num_classes)
        cells = self.bins_of(checks.ranked(samples, self.kind, self.num_classes, self.ranked_by))
        bins = self.bins
        if self.kind != "binary":
            cells += np.arange(0, self.size, 2 * bins)
        if self.kind == "multiclass":
            cells[np.arange(len(cells)), targets] += bins
        else:
            cells += bins * targets
        return Counts(cells)

    def split(self, cells: Ints) -> list[tuple[Ints, Ints]]:
        """(positives, negatives) of each column of scores, shape [bins] each."""
        table = cells.reshape(self.columns, 2, -1)
        return [(positives, negatives) for negatives, positives in table]


@lru_cache(maxsize=64)
def _bins_of_one_score(histogram: ScoreHistogram, few: tuple[float, ...]) -> NDArray[np.bool_]:
    return np.bincount(histogram.bins_of(np.array(few)), minlength=histogram.bins) <= 1


def shown(ranked_by: RankedBy, ranked: Floats) -> Floats:
    """Numbers that samples are ranked by, as people see them: log-odds as probabilities."""
    if ranked_by != "logits":
        return ranked
    small = np.exp(-np.abs(ranked))
    return np.where(ranked < 0, small, 1.0) / (1.0 + small)


def check_resolution(resolution: int) -> None:
    """
    Raises:
        InputError: a metric's option that no histogram can have.
    """
    if not (isinstance(resolution, int) and 0 <= resolution <= _LARGEST):
        raise InputError(
            f"resolution={resolution!r} of a histogram of scores is not possible. Allowed: whole numbers from 1 to "
            f"{_LARGEST} (2**resolution bins from 0 to 1 and more near the ends), and 0 for what fits the task."
        )
