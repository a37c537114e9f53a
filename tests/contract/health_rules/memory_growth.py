"""10 MiB more in each step."""

from __future__ import annotations

from drivetrain.training.health.record import Record
from tests.contract.health_rules.records import changed

FROM, WITHIN, ABOUT = 100, 100, "rank 1"


def planted(record: Record) -> Record:
    if record.ranks is None:
        return record
    return changed(record, "ranks", "memory", 1, lambda before: before + 10 * 2**20 * (record.step - 100))
