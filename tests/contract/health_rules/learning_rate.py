"""Steps are a fifth of the weights, and the loss rises."""

from __future__ import annotations

from dataclasses import replace

from drivetrain.training.health.record import Record
from tests.contract.health_rules.records import changed

FROM, WITHIN, ABOUT = 100, 5, ""


def planted(record: Record) -> Record:
    if record.ranks is None:
        return record
    moved = changed(record, "tensors", "update_sq", [0, 2, 4], lambda before: before * 1e5)
    return replace(moved, loss=50.0)
