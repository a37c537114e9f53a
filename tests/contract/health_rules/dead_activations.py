"""A layer puts out zeros."""

from __future__ import annotations

from drivetrain.training.health.record import Record
from tests.contract.health_rules.records import changed

FROM, WITHIN, ABOUT = 100, 3, "3"


def planted(record: Record) -> Record:
    if record.ranks is None:
        return record
    return changed(record, "layers", "zeros", 3, record.layers["size"][3])  # type: ignore[index]
