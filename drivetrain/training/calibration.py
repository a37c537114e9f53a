"""The calibration of a model: the block `calibration` of model.json, and its use on answers.

    binary      margin' = slope * margin + intercept, and the score is its sigmoid
    multiclass  probabilities in proportion to probability ** slope
    regression  predicted -/+ radius; or the model's own low - radius and high + radius

Needs numpy alone: it travels with a model that is served. training_scripts/calibrate.py writes the block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError

CALIBRATION = "calibration"
COSTS = ("false_positive_cost", "false_negative_cost")
# The log-odds of a probability of 0 or 1 are those of a number so close to it, unless the calibration has an edge.
_EDGE = 2.0**-53
# Sums of probabilities below this have lost digits.
_TINY = 1e-290

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Applied to the answers of a model, wherever it is asked.

    Attributes:
        slope: of the log-odds of two classes, or of the logarithms of several classes' probabilities; above 0.
        intercept: of the log-odds of two classes.
        radius: of a regression: what each end of an interval is moved out by, in units of the label; None for no
            interval.
        costs: of a false positive and of a false negative, by which the model's threshold was chosen; None for none.
        edge: scores without margins are no closer to 0 and 1 than this before their logarithms are taken; in (0, 0.5).
    """

    slope: float = 1.0
    intercept: float = 0.0
    radius: float | None = None
    costs: tuple[float, float] | None = None
    edge: float = _EDGE

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Calibration | None:
        """That of a model; None for a model without one.

        Args:
            description: model.json's content.

        Raises:
            InputError: the block is damaged.
        """
        told = description.get(CALIBRATION)
        if told is None:
            return None
        try:
            radius, costs = told.get("radius"), told.get("costs")
            found = cls(
                slope=float(told.get("slope", 1.0)),
                intercept=float(told.get("intercept", 0.0)),
                radius=None if radius is None else float(radius),
                costs=None if costs is None else (float(costs[COSTS[0]]), float(costs[COSTS[1]])),
                edge=float(told.get("edge", _EDGE)),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"the model's calibration cannot be read ({error!r}). Calibrate it again.") from None
        numbers = [found.slope, found.intercept, found.radius or 0.0]
        if not (np.isfinite(numbers).all() and found.slope > 0 and 0 < found.edge < 0.5):
            raise InputError(
                f"the model's calibration is {told!r:.200}; its slope must be above 0, its edge between 0 and "
                "0.5. Calibrate it again."
            )
        return found

    def probabilities(
        self, kind: str, scores: NDArray[Any] | None, margins: NDArray[Any] | None
    ) -> tuple[Floats, Floats | None]:
        """Calibrated scores, and the margins where there were some; shapes and meaning are those of `Samples`.

        Args:
            kind: binary or multiclass.
            scores: probabilities; None where there are raw scores alone, which are `margins`.
        """
        if kind == "binary":
            moved = self.slope * log_odds(scores, margins, self.edge) + self.intercept
            return sigmoid(moved), None if margins is None else moved
        logits = self.slope * log_probabilities(scores, margins, self.edge)
        found = np.exp(logits - logits.max(axis=1, keepdims=True))
        found /= found.sum(axis=1, keepdims=True)
        return found, None if margins is None else log_odds_of_each(logits, found)

    def ends(self, predicted: NDArray[Any], ends: tuple[Any, Any] | None) -> tuple[Floats, Floats] | None:
        """Both ends of each row's interval, shape [n] each; None without intervals.

        Args:
            predicted: shape [n] or [n, 1]; several values a row have no interval.
            ends: the model's own.
        """
        if self.radius is None:
            return ends
        low, high = ends or (predicted.reshape(len(predicted)), predicted.reshape(len(predicted)))
        low, high = low.astype(np.float64) - self.radius, high.astype(np.float64) + self.radius
        middle = (low + high) / 2  # of an interval that became empty
        return np.minimum(low, middle), np.maximum(high, middle)


def sigmoid(margins: Floats) -> Floats:
    """1 / (1 + exp(-margin)), to the last digits of both tails."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-margins))


def log_odds(scores: NDArray[Any] | None, margins: NDArray[Any] | None, edge: float = _EDGE) -> Floats:
    """The log-odds of two classes' scores, or the raw scores in their place; shape [n]."""
    if margins is not None:
        return margins.astype(np.float64)
    assert scores is not None
    kept = np.clip(scores.astype(np.float64), edge, 1 - edge)
    return np.log(kept) - np.log1p(-kept)


def log_probabilities(scores: NDArray[Any] | None, margins: NDArray[Any] | None, edge: float = _EDGE) -> Floats:
    """The logarithms of several classes' probabilities, shape [n, C]; from log-odds, where there are some."""
    if margins is not None:
        return -np.logaddexp(0, -margins.astype(np.float64))
    assert scores is not None
    return np.log(np.maximum(scores.astype(np.float64), edge))


def log_odds_of_each(logits: Floats, probabilities: Floats) -> Floats:
    """z_k - logsumexp of the others, shape [n, C], by p_k / (1 - p_k), where 1 - p_k has all its digits: it is at least
    1/2, but for the largest logit, for which the others are added up."""
    if logits.shape[1] == 1:
        return np.zeros_like(logits)
    top = probabilities.argmax(axis=1)[:, None]
    best, highest = np.take_along_axis(probabilities, top, 1), np.take_along_axis(logits, top, 1)
    others = probabilities.copy()
    np.put_along_axis(others, top, 0, 1)
    rest = others.sum(axis=1, keepdims=True)
    # (Equal logits have equal margins.)
    found = np.where(logits == highest, np.maximum(rest, _TINY), 1 - probabilities)
    np.divide(best, found, out=found)
    np.log(found, out=found)
    found += logits - highest
    for row in np.flatnonzero(rest[:, 0] < _TINY):
        below = np.delete(logits[row], top[row])
        found[row, top[row]] = highest[row] - np.logaddexp.reduce(below)
    return found
