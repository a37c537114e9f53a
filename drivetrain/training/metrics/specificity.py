"""Specificity: of what is not a class, how much is not predicted to be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from drivetrain.training.metric_states.outcomes import ClassTable
from drivetrain.training.metric_states.rows import Is, Share
from drivetrain.training.metrics._by_class import ByClass, Quotients


@dataclass(frozen=True)
class Metric(ByClass):
    """True negatives / targets of other classes, a class: the recall of all that is not the class."""

    micro_is_accuracy: ClassVar[bool] = False

    def share(self, target: Is, claimed: Is) -> Share:
        return Share((replace(claimed, negated=True),), (replace(target, negated=True),))

    def quotients(self, table: ClassTable) -> Quotients:
        return Quotients(table.rejected, table.rejected + table.claimed_in_vain, failed=np.zeros_like(table.actual))

    def reason(self, place: int) -> str:
        return f"every sample is of class {place}"
