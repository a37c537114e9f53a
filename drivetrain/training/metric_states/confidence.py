"""How sure a model is against how often it is right, in bins of equal width."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.metric import Counts, Floats, Ints, Kind, Samples
from drivetrain.training.metric_states import checks
from drivetrain.training.metric_states.numbers import exact_sum
from drivetrain.training.metric_states.numbers.exact_sum import SIZE

BITS = 26
"""Behind the binary point, of a confidence that is rounded."""


class Bin(NamedTuple):
    """The samples of a bin."""

    num_samples: int
    num_right: int
    confidence: Fraction
    """The exact sum of their confidences."""


@dataclass(frozen=True)
class Confidences:
    """For each bin, the sum of the confidences (SIZE cells), and the numbers of wrong and of right samples.

    A sample's confidence is the score of the class that is predicted for it, and the sample is right where that is its
    target. In a binary task it is the score of class 1, and `right` means that class 1 is the target.
    """

    kind: Kind
    num_classes: int
    bins: int

    @property
    def size(self) -> int:
        return self.bins * (SIZE + 2)

    def count(self, samples: Samples) -> Counts:
        confidences, bins, right = self.in_bins(samples)
        sums = exact_sum.spread(confidences)
        assert sums.amounts is not None
        outcomes = (self.bins * (SIZE + right) + bins)[:, None]
        cells = np.concatenate([sums.cells + (bins * SIZE)[:, None], outcomes], axis=1)
        return Counts(cells, np.concatenate([sums.amounts, np.ones_like(outcomes)], axis=1))

    def in_bins(self, samples: Samples) -> tuple[Floats, Ints, NDArray[np.bool_]]:
        """The confidence of each sample, its bin, and whether it is right, shape [n] each."""
        if self.kind == "binary":
            right = checks.class_targets(samples, self.kind, self.num_classes).astype(bool)
            confidences = checks.scores(samples, self.kind, self.num_classes)
        else:
            targets, predicted = checks.classes(samples, self.kind, self.num_classes)
            right = targets == predicted
            scores = checks.scores(samples, self.kind, self.num_classes)
            confidences = np.take_along_axis(scores, predicted[:, None], axis=1)[:, 0]
        confidences = confidences.astype(np.float64)
        # A bin has its upper edge, and not its lower one, as in scikit-learn's calibration_curve.
        inner_edges = np.linspace(0, 1, self.bins + 1)[1:-1]
        return confidences, np.searchsorted(inner_edges, confidences), right

    def settle(self, cells: Ints) -> None:
        last = self.bins * SIZE
        exact_sum.settle(cells[..., :last].reshape(*cells.shape[:-1], self.bins, SIZE))

    def filled(self, counted: Ints) -> list[Bin]:
        """The bins that are not empty, upwards."""
        sums = counted[: self.bins * SIZE].reshape(self.bins, SIZE)
        wrong, right = counted[self.bins * SIZE :].reshape(2, self.bins).tolist()
        return [
            Bin(wrong[place] + right[place], right[place], exact_sum.total(sums[place]))
            for place in range(self.bins)
            if wrong[place] + right[place]
        ]


@dataclass(frozen=True)
class RoundedConfidences(Confidences):
    """The same in 3 cells a bin instead of 70: confidences are rounded to steps of 2**-BITS before they are summed up.

    A step is small enough for 2**36 samples.
    """

    @property
    def size(self) -> int:
        return 3 * self.bins

    def count(self, samples: Samples) -> Counts:
        confidences, bins, right = self.in_bins(samples)
        amounts = np.rint(np.ldexp(confidences, BITS)).astype(np.int64)
        cells = np.stack([bins, self.bins * (1 + right) + bins], axis=1)
        return Counts(cells, np.stack([amounts, np.ones_like(amounts)], axis=1))

    def settle(self, cells: Ints) -> None:
        """There is nothing to carry."""

    def filled(self, counted: Ints) -> list[Bin]:
        return [
            Bin(wrong + right, right, Fraction(confidence, 1 << BITS))
            for confidence, wrong, right in counted.reshape(3, self.bins).T.tolist()
            if wrong + right
        ]
