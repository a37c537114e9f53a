"""Dice: how well regions overlap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drivetrain.training.metric_states.outcomes import ClassTable
from drivetrain.training.metric_states.rows import Is, Share
from drivetrain.training.metric_states.uncertainty.intervals import Limits
from drivetrain.training.metrics._by_class import ByRegion, Quotients, twice_the_share


@dataclass(frozen=True)
class Metric(ByRegion):
    """2 * intersection / (one area + other area), a class, over all pixels of all samples (L. Dice, "Measures of the
    Amount of Ecologic Association Between Species", 1945). Of samples that are one class each, it is F1."""

    shared_by: ClassVar[int] = 2

    def share(self, target: Is, claimed: Is) -> Share:
        return Share((target, claimed), (target, claimed), "twice")

    def quotients(self, table: ClassTable) -> Quotients:
        return Quotients(2 * table.found, table.actual + table.claimed, failed=np.zeros_like(table.actual))

    def limits(self, top: float, bottom: float) -> Callable[[float], Limits]:
        return twice_the_share(top, bottom)
