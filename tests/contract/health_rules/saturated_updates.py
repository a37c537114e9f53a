"""Steps are as long as the weights of a layer."""

from __future__ import annotations

from drivetrain.training.health.record import Record
from tests.contract.health_rules.records import changed

FROM, WITHIN, ABOUT = 100, 3, "4.weight"


def planted(record: Record) -> Record:
    if record.ranks is None:
        return record
    return changed(record, "tensors", "update_sq", 4, record.tensors["weight_sq"][4])  # type: ignore[index]
