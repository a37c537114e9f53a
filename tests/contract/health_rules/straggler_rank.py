"""A rank is 30 % slower."""

from __future__ import annotations

from drivetrain.training.health.record import Record
from tests.contract.health_rules.records import changed

FROM, WITHIN, ABOUT = 100, 20, "rank 2"


def planted(record: Record) -> Record:
    if record.ranks is None:
        return record
    return changed(record, "ranks", "own", 2, lambda before: before * 1.3)
