"""Gradients take longer than everything else."""

from __future__ import annotations

from drivetrain.training.health.record import Record
from tests.contract.health_rules.records import changed

FROM, WITHIN, ABOUT = 100, 5, ""


def planted(record: Record) -> Record:
    if record.ranks is None:
        return record
    return changed(record, "ranks", "communication", slice(None), 0.2)
