"""No gradient comes to a bias."""

from __future__ import annotations

from drivetrain.training.health.record import Record
from tests.contract.health_rules.records import changed

FROM, WITHIN, ABOUT = 100, 5, "2.bias"


def planted(record: Record) -> Record:
    if record.ranks is None:
        return record
    still = changed(record, "tensors", "grad_sq", 3, 0.0)
    return changed(changed(still, "tensors", "with_grad", 3, 0.0), "tensors", "changed", 3, 0.0)
