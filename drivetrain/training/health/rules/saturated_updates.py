"""A step changes the weights of a layer by a large part of what they are, so that what was learnt is overwritten.

About 0.001 is usual. What is compared are root mean squares of matrices; ones that start at 0 are left out until they
have grown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.base.errors import and_more
from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen
from drivetrain.training.health.rules._in_a_row import InARow

WATCHES = "tensors"
ACTION = "warn"
WINDOW = "3 records with tensors, after the first 2"
ADVICE = "Lower learning_rate, or give these layers a group of their own in the recipe's optimizer."


@dataclass
class Rule:
    ratio: float = 0.5
    """Update to weight."""
    records: int = 3
    """In how many records in a row."""
    first: int = 2
    """Records that are left out: an optimizer's first steps are its largest."""

    def __post_init__(self) -> None:
        self._in_a_row, self._seen = InARow(self.records), 0

    def see(self, record: Record) -> Seen | None:
        assert record.tensors is not None
        self._seen += 1
        if self._seen <= self.first:
            return None
        weights, updates = record.tensors.rms("weight_sq", "sampled"), record.tensors.rms("update_sq", "sampled")
        matrices = np.array(record.matrices, dtype=bool)
        ratios = np.where(matrices & (weights > 0), updates / np.where(weights > 0, weights, 1.0), 0.0)
        large = np.flatnonzero(ratios > self.ratio)
        names = self._in_a_row(record.tensors.names[int(row)] for row in large)
        if not names:
            return None
        return Seen(f"a step changes {and_more(names, 3)} by {float(ratios[large].max()):.0%} of its weights", names[0])
