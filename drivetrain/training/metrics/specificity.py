"""Specificity: of what is not a class, how much is not predicted to be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.training.metric_states.outcomes import ClassTable
from drivetrain.training.metrics._by_class import ByClass, Quotients


@dataclass(frozen=True)
class Metric(ByClass):
    """True negatives / targets of other classes, a class: the recall of all that is not the class."""

    def quotients(self, table: ClassTable) -> Quotients:
        return Quotients(table.rejected, table.rejected + table.claimed_in_vain, failed=np.zeros_like(table.actual))

    def reason(self, place: int) -> str:
        return f"every sample is of class {place}"
