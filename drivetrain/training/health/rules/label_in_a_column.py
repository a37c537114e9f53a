"""A single column of a table tells the label: it may be known only after the label is."""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen

WATCHES = "columns"
ACTION = "warn"
WINDOW = "the end of the training"
ADVICE = "Leave the column out by the option ignore, unless it is known when the model is asked."


@dataclass
class Rule:
    moves: float = 0.8
    """The least share of the column in what moves the answers."""
    loss: float = 0.1
    """The highest loss as a share of that of the best constant answer."""

    def see(self, record: Record) -> Seen | None:
        assert record.columns is not None
        columns = record.columns
        total = sum(columns.moves.values())
        if columns.loss is None or columns.guess is None or not total or columns.loss > self.loss * columns.guess:
            return None
        name = max(columns.moves, key=lambda each: columns.moves[each])
        share = columns.moves[name] / total
        if len(columns.moves) == 1 or share < self.moves:
            return None
        return Seen(f"column {name!r} makes {share:.0%} of what moves the answers, which are nearly all right", name)
