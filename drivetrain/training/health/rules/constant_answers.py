"""A model of a table gives all rows the same answer: no column moves it."""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen

WATCHES = "columns"
ACTION = "fail"
WINDOW = "the end of the training"
ADVICE = "Look whether columns and label belong together; looser bounds (min_child_weight, gamma) let more be learnt."


@dataclass
class Rule:
    def see(self, record: Record) -> Seen | None:
        assert record.columns is not None
        moves = record.columns.moves
        if not moves or any(moves.values()):
            return None
        return Seen(f"none of the {len(moves)} columns moves an answer")
