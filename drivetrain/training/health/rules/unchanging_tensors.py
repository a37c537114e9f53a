"""A tensor that is trained does not change: it gets no gradient, or steps so small that rounding swallows them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.base.errors import and_more
from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen
from drivetrain.training.health.rules._in_a_row import InARow

WATCHES = "tensors"
ACTION = "warn"
WINDOW = "5 records with tensors"
ADVICE = (
    "Set requires_grad=False where it is meant so. Else look for a detach() or a layer that is not used; in bf16 or "
    "fp16 keep the parameters in fp32, or raise learning_rate."
)


@dataclass
class Rule:
    records: int = 5
    """In how many records in a row."""
    least: int = 16
    """The least number of sampled elements with a gradient that must all stay the same."""

    def __post_init__(self) -> None:
        self._no_gradient, self._no_change = InARow(self.records), InARow(self.records)

    def see(self, record: Record) -> Seen | None:
        if record.factor <= 0.01:  # the rate itself is next to nothing
            return None
        table = record.tensors
        assert table is not None
        still = np.flatnonzero((table["grad_sq"] == 0) & (table["size"] > 0))
        stuck = np.flatnonzero((table["with_grad"] >= self.least) & (table["changed"] == 0))
        idle = self._no_gradient(table.names[int(row)] for row in still)
        unmoved = self._no_change(table.names[int(row)] for row in stuck)
        if idle:
            return Seen(f"{and_more(idle, 3)} got no gradient", idle[0])
        if unmoved:
            return Seen(f"{and_more(unmoved, 3)} got a gradient, and no step changed it", unmoved[0])
        return None
