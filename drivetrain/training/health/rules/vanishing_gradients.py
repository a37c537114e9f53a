"""Some layer learns next to nothing: its gradient is tiny beside that of the layer that has the largest.

It compares the root mean square of the gradients of matrices (biases and scales have fewer entries, and larger ones). A
gradient of exactly 0 is left to the rule unchanging_tensors. A gradient that grows does not vanish: a matrix before one
that starts at zero, as in adapters (E. Hu and others, "LoRA", 2021), learns as the latter grows.
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
WINDOW = "3 records with tensors"
ADVICE = (
    "Use residual connections or a normalization between layers, an activation that does not saturate (ReLU, GELU "
    "instead of sigmoid or tanh), or another initialisation."
)


@dataclass
class Rule:
    ratio: float = 1e-6
    """Smallest root mean square beside the largest."""
    records: int = 3
    """In how many records in a row."""
    growth: float = 1.5
    """How many times as large, beside the largest, as in the first of these records it must not have become."""

    def __post_init__(self) -> None:
        self._in_a_row = InARow(self.records)
        self._first: dict[str, float] = {}

    def see(self, record: Record) -> Seen | None:
        assert record.tensors is not None
        sizes = record.tensors.rms("grad_sq", "size")
        of_matrices = np.where(np.array(record.matrices, dtype=bool), sizes, 0.0)
        largest = float(of_matrices.max(initial=0.0))
        if not np.isfinite(largest):
            return None
        small = np.flatnonzero((of_matrices > 0) & (of_matrices < self.ratio * largest))
        shares = {record.tensors.names[int(row)]: float(of_matrices[row]) / largest for row in small}
        # From where each is watched on: from this record, where it was not small before, or has grown since.
        is_watched = {name: share < self.growth * self._first.get(name, 0.0) for name, share in shares.items()}
        self._first = {name: self._first[name] if is_watched[name] else share for name, share in shares.items()}
        self._in_a_row.forget(name for name in shares if not is_watched[name])
        names = self._in_a_row(shares)
        if not names:
            return None
        least = float(of_matrices[small].min())
        return Seen(f"gradients of {and_more(names, 3)} are {least / largest:.1e} of the largest layer's", names[0])
