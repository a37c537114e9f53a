"""One column is the label in other words."""

from __future__ import annotations

from dataclasses import replace

from drivetrain.training.health.record import Columns, Record

FROM, WITHIN, ABOUT = 400, 0, "plan"


def planted(record: Record) -> Record:
    if record.columns is None:
        return record
    return replace(record, columns=Columns(moves={"age": 0.1, "plan": 4.0}, loss=0.001, guess=0.6))
