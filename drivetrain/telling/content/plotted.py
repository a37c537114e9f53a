"""Curves and matrices that an evaluation wrote, as data to draw, and the choice of a binary model's threshold
(curves.json)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from drivetrain.base.json_text import as_list, as_object, list_in, object_in
from drivetrain.telling.content.untrusted_json import drawable, objects, text, whole

MAX_CURVES = 1_000
MAX_POINTS = 5_000
MAX_SIDE = 1_000
MAX_ROWS = 50
KIND = "threshold"


@dataclass(frozen=True, kw_only=True)
class PlottedCurve:
    """A curve: `kind` says which (`roc`), `name` of what (`roc_curve_class_3`). `counts` says on how many samples each
    point rests, where the curve says so (a reliability diagram)."""

    name: str
    kind: str
    points: tuple[tuple[float, float], ...]
    counts: tuple[float, ...] = ()
    x_label: str = ""
    y_label: str = ""


@dataclass(frozen=True, kw_only=True)
class PlottedMatrix:
    """A table of numbers with named rows and columns, such as a confusion matrix (a row is a true class)."""

    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[float, ...], ...]


Plotted = PlottedCurve | PlottedMatrix


def plotted(found: Mapping[str, Any]) -> Iterator[Plotted]:
    """The curves that can be drawn; the rest is left out, and so is the choice of a threshold (`threshold_facts`)."""
    for name, entry in list(found.items())[:MAX_CURVES]:
        given = as_object(entry)
        if given.get("kind") == KIND:
            continue
        one = _matrix(text(name), given) if "cells" in given else _curve(text(name), given)
        if one is not None:
            yield one


def _curve(name: str, given: Mapping[str, Any]) -> PlottedCurve | None:
    pairs = zip(list_in(given, "x")[:MAX_POINTS], list_in(given, "y")[:MAX_POINTS], strict=False)
    points = [(drawable(x), drawable(y)) for x, y in pairs]
    kept = tuple(cast("tuple[float, float]", point) for point in points if None not in point)
    if not kept:
        return None
    counts = tuple(max(drawable(count) or 0.0, 0.0) for count in list_in(given, "counts")[:MAX_POINTS])
    return PlottedCurve(
        name=name,
        kind=text(given.get("kind")),
        points=kept,
        counts=counts if len(counts) == len(points) == len(kept) else (),
        x_label=text(given.get("x_label"), 60),
        y_label=text(given.get("y_label"), 60),
    )


def _matrix(name: str, given: Mapping[str, Any]) -> PlottedMatrix | None:
    rows, columns, cells = (as_list(given.get(key)) for key in ("rows", "columns", "cells"))
    fits = len(cells) == len(rows) and all(isinstance(row, list) and len(row) == len(columns) for row in cells)  # pyright: ignore[reportUnknownArgumentType]
    if not fits or not rows or not columns or max(len(rows), len(columns)) > MAX_SIDE:
        return None
    return PlottedMatrix(
        name=name,
        rows=tuple(map(text, rows)),
        columns=tuple(map(text, columns)),
        cells=tuple(tuple(max(drawable(cell) or 0.0, 0.0) for cell in row) for row in cells),
    )


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
    """The choice among the curves; None without one."""
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
