"""A model of a table is no better on held-out data than the answer that is best for all rows alike."""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen

WATCHES = "columns"
ACTION = "warn"
WINDOW = "the end of the training"
ADVICE = "Other columns may tell more; a lower learning_rate with early_stopping keeps noise from being learnt."


@dataclass
class Rule:
    share: float = 0.99
    """The least loss as a share of that of the best constant answer."""

    def see(self, record: Record) -> Seen | None:
        assert record.columns is not None
        loss, guess = record.columns.loss, record.columns.guess
        if loss is None or guess is None or loss < self.share * guess:
            return None
        return Seen(f"the loss on held-out data is {loss:.4g}, and {guess:.4g} by the best answer for all rows alike")
