"""Tables of targets against predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.training.metric import Counts, Samples
from drivetrain.training.metric_states import checks
from drivetrain.training.metric_states.outcomes import fewest
from drivetrain.training.task import Kind


@dataclass(frozen=True)
class ConfusionMatrix:
    """Row: the target's class, column: the predicted one. Of more than `shown` classes the others are one, the last.

    (Two numbers a class, or a few, are cheaper: metric_states/outcomes.py, and Distances.)
    """

    kind: Kind
    num_classes: int
    shown: int

    @property
    def side(self) -> int:
        """Rows of the matrix."""
        return self.num_classes if self.num_classes <= self.shown else self.shown + 1

    @property
    def size(self) -> int:
        return self.side**2

    def count(self, samples: Samples) -> Counts:
        targets, predicted = checks.classes(samples, self.kind, self.num_classes)
        last = self.side - 1
        cells = np.minimum(targets, last) * self.side + np.minimum(predicted, last)
        if self.kind != "segmentation":
            return Counts(cells)
        # One more cell for the pixels that do not count; it is not handed on.
        cells[targets == checks.IGNORED] = self.size
        counts = fewest(cells, self.size + 1)
        if counts.amounts is None:
            kept = cells < self.size
            return Counts(np.where(kept, cells, 0), kept.astype(np.int64))
        return Counts(counts.cells[:, :-1], counts.amounts[:, :-1])


@dataclass(frozen=True)
class Distances:
    """How many samples' predictions are d classes off: C cells. For classes that are steps of a scale."""

    kind: Kind
    num_classes: int

    @property
    def size(self) -> int:
        return self.num_classes

    def count(self, samples: Samples) -> Counts:
        targets, predicted = checks.classes(samples, self.kind, self.num_classes)
        return Counts(np.abs(targets - predicted))
