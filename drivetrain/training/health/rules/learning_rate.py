"""The learning rate is far from what this model can learn with: the steps of most layers are too long or too short.

Looked at is the median over all matrices of update to weight, for the highest rate of the schedule. It is too high only
where the loss has risen as well: some models bear large steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.training.health.record import Record, quantile
from drivetrain.training.health.rule import Seen

WATCHES = "tensors"
ACTION = "warn"
WINDOW = "5 records with tensors"
ADVICE = (
    "Try a rate ten times lower (too high) or ten times higher (too low); an update of 0.001 of the weight is usual."
)
REMEMBERS = ("_first_loss",)


@dataclass
class Rule:
    high: float = 0.1
    """Update to weight that is too much, where the loss is above that of the first record."""
    low: float = 1e-6
    """Update to weight that is too little."""
    records: int = 5
    """In how many records in a row."""

    def __post_init__(self) -> None:
        self._first_loss: float | None = None
        self._high = self._low = 0

    def see(self, record: Record) -> Seen | None:
        assert record.tensors is not None
        is_first = self._first_loss is None
        if is_first:
            self._first_loss = record.loss
        ratio = _median(record)
        if ratio is None or record.factor < 0.1:  # warming up, or nearly at the end
            return None
        loss, first = record.loss, self._first_loss
        rises = loss is not None and first is not None and not loss <= 1.1 * first
        # (The first record, with which the loss is compared, cannot be above itself.)
        self._high = self._high + 1 if ratio * record.factor > self.high and (rises or is_first) else 0
        self._low = self._low + 1 if ratio < self.low else 0
        if self._high >= self.records:
            return Seen(
                f"learning_rate is too high: a step changes half of the layers by more than {ratio:.0%} of their "
                f"weights, and the loss ({record.loss:.4g}) is above that of the beginning ({self._first_loss:.4g})"
            )
        if self._low >= self.records:
            return Seen(f"learning_rate is too low: a step changes half of the layers by less than {ratio:.1e}")
        return None


def _median(record: Record) -> float | None:
    """Update to weight at the highest rate of the schedule."""
    assert record.tensors is not None
    weights, updates = record.tensors.rms("weight_sq", "sampled"), record.tensors.rms("update_sq", "sampled")
    counted = np.array(record.matrices, dtype=bool) & (weights > 0) & np.isfinite(weights) & np.isfinite(updates)
    if not counted.any() or not record.factor > 0:
        return None
    return float(quantile(updates[counted] / weights[counted], 0.5)) / record.factor
