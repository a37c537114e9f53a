"""Scores in rising order, each of them once, with the samples that have it: what an exact ranking is added up from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.training_scripts.counting.enclosure import dot, fitting, sum_of_ratios
from drivetrain.training_scripts.metric import Floats, Ints, Ranking

BYTES = 16
"""Of an entry."""
LARGEST = 1 << 31
"""Fewer samples than this have one score on one rank, so that both numbers of an entry fit into one."""
_HALF = np.int64(32)


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
    """Of scores from 0 on, which are ordered as their bits are; the last bit of a key tells a positive sample."""
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
    """Of the positives of a range, over the pairs with all negatives: 2 for a higher score, 1 for the same.

    Args:
        negatives_below: negatives that score lower than the range.
    """
    _, positives, negatives = tallied
    before = np.cumsum(negatives) - negatives
    below = 2 * negatives_below * int(positives.sum())
    return below + 2 * dot(positives, before) + dot(positives, negatives)


def precision_sum(tallied: Tallied, positives_above: int, negatives_above: int) -> int:
    """Over the positives of a range: the precision at their score, in steps of 1 / UNIT (counting/enclosure.py), that
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
