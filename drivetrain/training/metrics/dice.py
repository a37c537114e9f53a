"""Dice: how well regions overlap."""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training.metrics import f1
from drivetrain.training.metrics._by_class import ByRegion


@dataclass(frozen=True)
class Metric(f1.Metric, ByRegion):
    """2 * intersection / (one area + other area), a class, over all pixels of all samples (L. Dice, "Measures of the
    Amount of Ecologic Association Between Species", 1945). Of samples that are one class each, it is F1."""
