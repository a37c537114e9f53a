"""How sure a model is against how often it is right, in bins of equal width."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from drivetrain.training_scripts.counting import checks, exact_sum
from drivetrain.training_scripts.counting.exact_sum import SIZE
from drivetrain.training_scripts.metric import Counts, Ints, Kind, Samples


class Bin(NamedTuple):
    """The samples of a bin."""

    num_samples: int
    num_right: int
    confidence: Fraction
    """The exact sum of their confidences."""


@dataclass(frozen=True)
class Confidences:
    """Of each bin the sum of the confidences (SIZE cells), the number of wrong samples, and of right ones.

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
        bins = np.searchsorted(inner_edges, confidences)
        sums = exact_sum.spread(confidences)
        assert sums.amounts is not None
        outcomes = (self.bins * (SIZE + right) + bins)[:, None]
        cells = np.concatenate([sums.cells + (bins * SIZE)[:, None], outcomes], axis=1)
        return Counts(cells, np.concatenate([sums.amounts, np.ones_like(outcomes)], axis=1))

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
