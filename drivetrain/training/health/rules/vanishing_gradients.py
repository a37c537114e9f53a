"""Some layer learns next to nothing: its gradient is tiny beside that of the layer that has the largest.

What is compared is the root mean square of the gradients of matrices (biases and scales have fewer entries, and larger
ones). Where a gradient is exactly 0 it is another rule's: unchanging_tensors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen
from drivetrain.training.health.rules._in_a_row import InARow, named

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

    def __post_init__(self) -> None:
        self._in_a_row = InARow(self.records)

    def see(self, record: Record) -> Seen | None:
        assert record.tensors is not None
        sizes = record.tensors.rms("grad_sq", "size")
        of_matrices = np.where(np.array(record.matrices, dtype=bool), sizes, 0.0)
        largest = float(of_matrices.max(initial=0.0))
        if not np.isfinite(largest):
            return None
        small = np.flatnonzero((of_matrices > 0) & (of_matrices < self.ratio * largest))
        names = self._in_a_row(record.tensors.names[int(row)] for row in small)
        if not names:
            return None
        least = float(of_matrices[small].min())
        return Seen(f"gradients of {named(names)} are {least / largest:.1e} of the largest layer's", names[0])
