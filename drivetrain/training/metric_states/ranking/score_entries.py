"""Scores in rising order, each of them once, with the samples that have it: what an exact ranking is added up from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.metric import Floats, Ints, Ranking
from drivetrain.training.metric_states.numbers.enclosure import dot, fitting, sum_of_ratios

BYTES = 16
"""The bytes of an entry."""
LARGEST = 1 << 31
"""Fewer samples than this have one score on one rank, so that both numbers of an entry fit into one."""
_HALF = np.int64(32)


Points = NDArray[np.int64]


class Entries(NamedTuple):
    """Scores, and 2**32 * positives + negatives of each: shape [n] both."""

    scores: Floats
    counts: Ints

    @property
    def positives(self) -> Ints:
        return self.counts >> _HALF

    @property
    def negatives(self) -> Ints:
        return self.counts & np.int64((1 << 32) - 1)

    def part(self, first: int, last: int) -> Entries:
        return Entries(self.scores[first:last], self.counts[first:last])


def entries_of(batches: Sequence[Ranking]) -> Entries:
    """The samples of all batches, whose scores are finite and which are fewer than LARGEST."""
    empty = Ranking(np.empty(0), np.empty(0, bool))
    scores = np.concatenate([batch.scores for batch in (empty, *batches)], dtype=np.float64)
    positive = np.concatenate([batch.positive for batch in (empty, *batches)], dtype=bool)
    below = scores < 0
    if not below.any():
        return _collapsed(scores, positive)
    lower, upper = _collapsed(-scores[below], positive[below]), _collapsed(scores[~below], positive[~below])
    return Entries(
        np.concatenate([-lower.scores[::-1], upper.scores]), np.concatenate([lower.counts[::-1], upper.counts])
    )


def _collapsed(scores: Floats, positive: NDArray[np.bool_]) -> Entries:
    """Entries of scores of at least 0, ordered as their bits are; the last bit of a key marks a positive sample."""
    keys = (scores + 0.0).view(np.uint64)  # (-0.0 becomes 0.0)
    keys <<= np.uint64(1)
    keys |= positive
    keys.sort()  # whole numbers sort several times faster than an argsort of scores
    bits = keys >> np.uint64(1)
    ends = np.flatnonzero(np.append(bits[1:] != bits[:-1], True)[: len(bits)])
    samples = np.diff(ends, prepend=-1)
    positives = np.diff(np.cumsum(keys & np.uint64(1)).astype(np.int64)[ends], prepend=0)
    return Entries(bits[ends].view(np.float64), (positives << _HALF) + (samples - positives))


class Tallied(NamedTuple):
    """A range of merged entries, of several ranks: shape [n] each. Numbers may be larger than an entry's."""

    scores: Floats
    positives: Ints
    negatives: Ints


def merged(several: Sequence[Entries]) -> Tallied:
    """Equal scores of several entries become one."""
    scores = np.concatenate([entries.scores for entries in several])
    order = np.argsort(scores, kind="stable")  # finds the runs that are in order, and merges them
    scores = scores[order]
    counts = np.concatenate([entries.counts for entries in several])[order]
    del order
    ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], True)[: len(scores)])
    columns = (Entries(scores, counts).positives, Entries(scores, counts).negatives)
    positives, negatives = (np.diff(np.cumsum(column)[ends], prepend=0) for column in columns)
    return Tallied(scores[ends], positives, negatives)


def twice_wins(tallied: Tallied, negatives_below: int) -> int:
    """Sum over the pairs of a range's positives with all negatives: 2 for a higher score, 1 for the same.

    Args:
        negatives_below: negatives that score lower than the range.
    """
    _, positives, negatives = tallied
    before = np.cumsum(negatives) - negatives
    below = 2 * negatives_below * int(positives.sum())
    return below + 2 * dot(positives, before) + dot(positives, negatives)


def precision_sum(tallied: Tallied, positives_above: int, negatives_above: int) -> int:
    """Over the positives of a range: the precision at their score, in steps of 1 / UNIT (numbers/enclosure.py), that
    of each score rounded down.

    Args:
        positives_above: positives that score higher than the range.
        negatives_above: negatives that do.
    """
    found = np.flatnonzero(tallied.positives)
    positives = tallied.positives[found]
    reached = [
        above + int(column.sum()) - (np.cumsum(column) - column)[found]
        for above, column in ((positives_above, tallied.positives), (negatives_above, tallied.negatives))
    ]
    total = positives_above + negatives_above + int(tallied.positives.sum() + tallied.negatives.sum())
    positives, true, false = fitting((positives, *reached), total)
    return sum_of_ratios(positives * true, true + false).low


def points(tallied: Tallied, above: tuple[int, int], totals: tuple[int, int], marks: int) -> Points:
    """Choose the scores of a range that are points of a curve over all ranges: those that reach the k-th of `marks`
    even parts of all positives, or of all negatives, the last of them always. It does not matter how the ranges were
    cut.

    Args:
        above: positives and negatives that score higher than the range.
        totals: all positives and negatives.

    Returns:
        int64 [2, marks, 3]: of positives and negatives, for each k the bits of the score that reaches it, and how many
        positives and negatives score as high or higher; zeros where another range has it, or where that score reaches
        the next one too. Those of all ranges can be added up.
    """
    found = np.zeros((2, marks, 3), np.int64)
    if not len(tallied.scores):
        return found
    reached = [first + np.cumsum(column[::-1]) for first, column in zip(above, tallied[1:], strict=True)]
    for side, (first, total) in enumerate(zip(above, totals, strict=True)):
        if not total:
            continue
        wanted = -(-np.arange(1, marks + 1) * total // marks)
        own = np.flatnonzero((wanted > first) & (wanted <= reached[side][-1]))
        places = np.searchsorted(reached[side], wanted[own])
        last = np.append(places[1:] != places[:-1], True)[: len(places)]
        own, places = own[last], places[last]
        found[side, own, 0] = tallied.scores[::-1][places].view(np.int64)
        found[side, own, 1], found[side, own, 2] = reached[0][places], reached[1][places]
    return found


def curve_of(points: Points) -> tuple[tuple[float, int, int], ...]:
    """The points of all ranges, added up, as `Ranked.curve` has them."""
    rows = np.unique(points.reshape(-1, 3), axis=0)
    rows = rows[rows[:, 1] + rows[:, 2] > 0]
    rows = rows[np.argsort(rows[:, 1] + rows[:, 2])]
    scores = rows[:, 0].copy().view(np.float64)
    return tuple(zip(scores.tolist(), rows[:, 1].tolist(), rows[:, 2].tolist(), strict=True))
