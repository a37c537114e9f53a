"""A layer puts out nothing but zeros: its units are dead, and no gradient brings them back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.base.errors import and_more
from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen
from drivetrain.training.health.rules._in_a_row import InARow

WATCHES = "layers"
ACTION = "warn"
WINDOW = "3 records with tensors"
ADVICE = (
    "Lower learning_rate (a large step has pushed the units below 0), use LeakyReLU or GELU, or look at the "
    "initialisation of the layer before it."
)


@dataclass
class Rule:
    share: float = 0.99
    """The share of outputs that are exactly 0."""
    records: int = 3
    """In how many records in a row."""

    def __post_init__(self) -> None:
        self._in_a_row = InARow(self.records)

    def see(self, record: Record) -> Seen | None:
        assert record.layers is not None
        shares = record.layers.mean("zeros", "size")
        dead = np.flatnonzero((shares >= self.share) & (record.layers["size"] > 0))
        names = self._in_a_row(record.layers.names[int(row)] for row in dead)
        if not names:
            return None
        return Seen(f"{float(shares[dead].max()):.0%} of the outputs of {and_more(names, 3)} are 0", names[0])
