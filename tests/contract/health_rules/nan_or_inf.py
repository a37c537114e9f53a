"""A weight is no number from step 100 on."""

from __future__ import annotations

import numpy as np

from drivetrain.training.health.record import Record
from tests.contract.health_rules.records import changed

FROM, WITHIN, ABOUT = 100, 1, "2.weight"


def planted(record: Record) -> Record:
    if record.ranks is None:
        return record
    return changed(record, "tensors", "weight_sq", 2, np.nan)
