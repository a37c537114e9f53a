"""The gradient grows a thousand times."""

from __future__ import annotations

from drivetrain.training.health.record import Record
from tests.contract.health_rules.records import changed

FROM, WITHIN, ABOUT = 100, 2, "2.weight"


def planted(record: Record) -> Record:
    if record.ranks is None:
        return record
    return changed(record, "tensors", "grad_sq", 2, lambda before: before * 1e8)
