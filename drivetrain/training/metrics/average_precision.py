"""Average precision: over the positive samples, the mean of the precision at their score (scikit-learn's).

The precision at a score is the share of positives among all samples that score as high or higher, so that samples with
equal scores are told of together. Of several classes each is taken against the rest. A class without positive samples
has none (scikit-learn says 0, and warns).

In histogram mode let a bin have p positives and n negatives, and let TP positives and FP negatives lie above it.
Whatever the order and the ties inside the bin, a positive of it has precision (TP + a) / (TP + a + FP + b), where a
positives and b negatives of the bin score as high or higher; that grows with a and falls with b.

    At most: a <= p and b >= 0, so each is at most (TP + p) / (TP + p + FP). All are when the positives tie above the
    negatives.
    At least: of the j-th positive from above, a >= j and b <= n, so it is at least g(j) = (TP + j) / (TP + j + FP + n).
    All are when the negatives lie above the positives, and these do not tie.

g is concave in j, so the sum of g(1), ..., g(p) is at least p (g(1) + g(p)) / 2, its chord, and with p <= 2 just that.
The value is the middle between both sums, in whole numbers (numbers/enclosure.py). In a bin that can hold one value
only all is a tie: a = p, b = n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.metric import Ints, Ranked
from drivetrain.training.metric_states.numbers.enclosure import Enclosure, fitting, sum_of_ratios
from drivetrain.training.metric_states.uncertainty.intervals import Limits, share
from drivetrain.training.metrics._one_versus_rest import AreaByClass, some_positive


@dataclass(frozen=True)
class Metric(AreaByClass):
    """Average precision (scikit-learn's average_precision_score)."""

    def enclosed(
        self, name: str, positives: Ints, negatives: Ints, ties: NDArray[np.bool_], size: tuple[int, int]
    ) -> Enclosure:
        total = some_positive(name, size[0])
        # Downwards, since what lies above a bin counts; bins without positives add nothing but their negatives.
        above = np.cumsum(negatives[::-1])[::-1] - negatives
        bins = np.flatnonzero(positives)
        tied = ties[bins]
        p, n, fp = positives[bins], negatives[bins], above[bins]
        tp = np.cumsum(p[::-1])[::-1] - p
        p, n, fp, tp = fitting((p, n, fp, tp), sum(size))
        highest = fp + np.where(tied, n, 0)
        lowest = fp + n
        high = sum_of_ratios(p * (tp + p), tp + p + highest)
        first = np.where(tied, p, 1)
        chord = (sum_of_ratios(p * (tp + j), tp + j + lowest) for j in (first, p))
        low = sum(one.low for one in chord)
        return Enclosure(low // (2 * total), -(-high.high // total))

    def exact(self, name: str, ranked: Ranked) -> Enclosure:
        mean = Fraction(ranked.precision_sum) / some_positive(name, ranked.num_positives)
        return Enclosure.of(mean, mean)

    def limits(self, value: float, positives: int, negatives: int) -> Callable[[float], Limits]:
        """As of a share of the positives, which is wider than need be."""
        return share(value * positives, positives)
