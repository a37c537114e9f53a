"""Curves and matrices that an evaluation wrote, as data to draw (curves.json)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from drivetrain.base.json_text import as_list, as_object, list_in
from drivetrain.telling.content.threshold import KIND
from drivetrain.telling.content.untrusted_json import drawable, text

MAX_CURVES = 1_000
MAX_POINTS = 5_000
MAX_SIDE = 1_000


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
    """The curves that can be drawn; the rest is left out, and so is the choice of a threshold
    (content/threshold.py)."""
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
    whole = tuple(cast("tuple[float, float]", point) for point in points if None not in point)
    if not whole:
        return None
    counts = tuple(max(drawable(count) or 0.0, 0.0) for count in list_in(given, "counts")[:MAX_POINTS])
    return PlottedCurve(
        name=name,
        kind=text(given.get("kind")),
        points=whole,
        counts=counts if len(counts) == len(points) == len(whole) else (),
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
