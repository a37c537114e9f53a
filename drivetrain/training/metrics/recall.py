"""Recall, or sensitivity: of a class, how much is found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.training.metric_states.outcomes import ClassTable
from drivetrain.training.metric_states.rows import Is, Share
from drivetrain.training.metrics._by_class import ByClass, Quotients


@dataclass(frozen=True)
class Metric(ByClass):
    """True positives / targets, a class (scikit-learn's recall_score)."""

    def share(self, target: Is, claimed: Is) -> Share:
        return Share((claimed,), (target,))

    def quotients(self, table: ClassTable) -> Quotients:
        return Quotients(table.found, table.actual, failed=np.zeros_like(table.actual))

    def reason(self, place: int) -> str:
        return f"no sample is of class {place}"
