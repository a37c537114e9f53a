"""F1: the harmonic mean of precision and recall."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.training_scripts.counting.outcomes import ClassTable
from drivetrain.training_scripts.metrics._by_class import ByClass, Quotients


@dataclass(frozen=True)
class Metric(ByClass):
    """2 * true positives / (targets + predictions), a class (scikit-learn's f1_score)."""

    def quotients(self, table: ClassTable) -> Quotients:
        return Quotients(2 * table.found, table.actual + table.claimed, failed=np.zeros_like(table.actual))
