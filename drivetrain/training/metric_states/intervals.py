"""The measures of intervals: whether each holds its target, and its width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from drivetrain.training.metric import Floats

DIRECTIONS: Mapping[str, bool | None] = {"coverage": None, "width": False}
"""Measure -> whether more is better; None where neither is."""


def covered(low: Floats, high: Floats, target: Floats) -> dict[str, NDArray[Any]]:
    """The measures by name, a value a row; all shapes are [n]."""
    return {"coverage": (low <= target) & (target <= high), "width": high - low}
