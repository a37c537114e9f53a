"""The second layer starts with outputs of a million."""

from __future__ import annotations

from drivetrain.training.health.record import Record
from tests.contract.health_rules.records import changed

FROM, WITHIN, ABOUT = 1, 1, "2"


def planted(record: Record) -> Record:
    if record.layers is None:
        return record
    return changed(record, "layers", "sq", 2, lambda before: before * 1e12)
