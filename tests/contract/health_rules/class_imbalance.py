"""Class 7 is never seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drivetrain.training.health.record import Record

FROM, WITHIN, ABOUT = 1, 12, "class 7"


def planted(record: Record) -> Record:
    if record.classes is None:
        return record
    return replace(record, classes=np.where(np.arange(len(record.classes)) == 7, 0.0, record.classes))
