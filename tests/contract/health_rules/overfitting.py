"""The loss on held-out data doubles, while that of the training falls."""

from __future__ import annotations

from dataclasses import replace

from drivetrain.training.health.record import Record

FROM, WITHIN, ABOUT = 100, 3, ""


def planted(record: Record) -> Record:
    if record.validation is None:
        return record
    worse = {"train_loss": 0.2, "validation_loss": 2.4}
    return replace(record, validation=worse)
