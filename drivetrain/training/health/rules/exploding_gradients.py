"""The gradient is many times longer than those with which the training began.

Long gradients at the very beginning are usual, and short ones at the end: so it is compared with the longest of the
first records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen

WATCHES = "tensors"
ACTION = "warn"
WINDOW = "2 records with tensors"
ADVICE = "Give clip_norm, or lower learning_rate; a longer warmup_epochs helps where it happens early."


@dataclass
class Rule:
    factor: float = 50.0
    """How many times the longest gradient of the first records."""
    first: int = 3
    """Records that are the first."""
    records: int = 2
    """In how many records in a row."""

    def __post_init__(self) -> None:
        self._begun: list[float] = []
        self._met = 0

    def see(self, record: Record) -> Seen | None:
        assert record.tensors is not None
        squares = record.tensors["grad_sq"]
        norm = float(np.sqrt(squares.sum()))
        if not np.isfinite(norm):
            return None  # another rule's
        if len(self._begun) < self.first:
            self._begun.append(norm)
            return None
        usual = max(self._begun)
        self._met = self._met + 1 if usual and norm > self.factor * usual else 0
        if self._met < self.records:
            return None
        name = record.tensors.names[int(squares.argmax())]
        return Seen(
            f"the gradient has length {norm:.3g}, {norm / usual:.0f} times that of the beginning, most in {name}", name
        )
