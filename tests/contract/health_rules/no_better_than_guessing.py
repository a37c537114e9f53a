"""The loss of guessing."""

from __future__ import annotations

from dataclasses import replace

from drivetrain.training.health.record import Columns, Record

FROM, WITHIN, ABOUT = 400, 0, ""


def planted(record: Record) -> Record:
    if record.columns is None:
        return record
    return replace(record, columns=Columns(moves={"age": 0.4, "plan": 0.2}, loss=0.65, guess=0.6))
