"""Nothing is learnt, from the beginning."""

from __future__ import annotations

from dataclasses import replace

from drivetrain.training.health.record import Record

FROM, WITHIN, ABOUT = 1, 200, ""


def planted(record: Record) -> Record:
    return record if record.loss is None else replace(record, loss=2.3 + 0.01 * (record.step % 7))
