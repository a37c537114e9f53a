"""Each checkpoint holds everything up for two minutes."""

from __future__ import annotations

from drivetrain.training.health.record import Record
from tests.contract.health_rules.records import changed

FROM, WITHIN, ABOUT = 100, 300, "rank 0"


def planted(record: Record) -> Record:
    if not record.ranks or not record.ranks["saves"].any():
        return record
    return changed(record, "ranks", "save", 0, 120.0)
