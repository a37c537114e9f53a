"""Precision: of what is predicted to be a class, how much is."""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training.metric_states.outcomes import ClassTable
from drivetrain.training.metric_states.rows import Is, Share
from drivetrain.training.metrics._by_class import ByClass, Quotients


@dataclass(frozen=True)
class Metric(ByClass):
    """True positives / predictions, a class (scikit-learn's precision_score).

    A model that never predicts a class that occurs has a precision of 0 there.
    """

    def share(self, target: Is, claimed: Is) -> Share:
        return Share((target,), (claimed,))

    def quotients(self, table: ClassTable) -> Quotients:
        return Quotients(table.found, table.claimed, failed=table.actual)
