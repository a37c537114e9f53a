"""The choice of a binary model's threshold, as an evaluation wrote it (curves.json, kind `threshold`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivetrain.base.json_text import as_object, list_in, object_in
from drivetrain.telling.content.untrusted_json import drawable, objects, whole

KIND = "threshold"
MAX_POINTS = 5_000
MAX_ROWS = 50


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a threshold. `cost` is that of a sample, computed from the costs."""

    threshold: float
    cost: float
    false_positive_cost: float
    false_negative_cost: float
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int


@dataclass(frozen=True, kw_only=True)
class ThresholdFacts:
    """`points` are (threshold, cost a sample, precision, recall), thresholds rising."""

    chosen: Outcome
    at_half: Outcome | None
    other_costs: tuple[Outcome, ...]
    points: tuple[tuple[float, float, float, float], ...]
    corners: tuple[tuple[float, int, int], ...] = ()
    """(threshold, true positives, false positives) of those that are the cheapest at some costs."""


def threshold_facts(curves: Mapping[str, Any]) -> ThresholdFacts | None:
    """The choice among the curves; None where there is none."""
    given: Mapping[str, Any] = next(
        (one for one in map(as_object, curves.values()) if one.get("kind") == KIND), as_object(None)
    )
    chosen = _outcome(object_in(given, "chosen"))
    if chosen is None:
        return None
    columns = (list_in(given, name)[:MAX_POINTS] for name in ("x", "y", "precision", "recall"))
    points = [tuple(map(drawable, point)) for point in zip(*columns, strict=False)]
    best = object_in(given, "best_at_some_costs")
    names = ("threshold", "true_positives", "false_positives")
    rows = zip(*(list_in(best, name)[:MAX_POINTS] for name in names), strict=False)
    corners = [(drawable(score), whole(ones), whole(zeros)) for score, ones, zeros in rows]
    others = [_outcome(entry) for entry in objects(given.get("other_costs"), MAX_ROWS)]
    return ThresholdFacts(
        chosen=chosen,
        at_half=_outcome(object_in(given, "at_half")),
        other_costs=tuple(one for one in others if one is not None),
        points=tuple(
            (x, cost, precision, recall)
            for x, cost, precision, recall in points
            if x is not None and cost is not None and precision is not None and recall is not None
        ),
        corners=tuple(
            (score, ones, zeros)
            for score, ones, zeros in corners
            if score is not None and ones is not None and zeros is not None
        ),
    )


def _outcome(given: Mapping[str, Any]) -> Outcome | None:
    numbers = [drawable(given.get(name)) for name in ("threshold", "cost", "false_positive", "false_negative")]
    names = ("true_positives", "false_positives", "true_negatives", "false_negatives")
    counts = [whole(given.get(name)) for name in names]
    threshold, cost, false_positive, false_negative = numbers
    if threshold is None or cost is None or false_positive is None or false_negative is None or None in counts:
        return None
    return Outcome(
        threshold=threshold,
        cost=cost,
        false_positive_cost=false_positive,
        false_negative_cost=false_negative,
        **{name: value for name, value in zip(names, counts, strict=True) if value is not None},
    )
