"""Held-out data gets no better."""

from __future__ import annotations

from dataclasses import replace

from drivetrain.training.health.record import Record

FROM, WITHIN, ABOUT = 100, 12, ""


def planted(record: Record) -> Record:
    if record.validation is None:
        return record
    return replace(record, validation={**record.validation, "validation_loss": 0.9})
