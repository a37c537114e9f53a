"""Intersection over union, or Jaccard index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drivetrain.training.metric_states.outcomes import ClassTable
from drivetrain.training.metric_states.rows import Is, Share
from drivetrain.training.metrics._by_class import ByRegion, Quotients


@dataclass(frozen=True)
class Metric(ByRegion):
    """Intersection / union, a class, over all pixels of all samples (scikit-learn's jaccard_score)."""

    shared_by: ClassVar[int] = 2

    micro_is_accuracy: ClassVar[bool] = False

    def share(self, target: Is, claimed: Is) -> Share:
        return Share((target, claimed), (target, claimed))

    def quotients(self, table: ClassTable) -> Quotients:
        return Quotients(table.found, table.actual + table.claimed_in_vain, failed=np.zeros_like(table.actual))
