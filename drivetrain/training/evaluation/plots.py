"""The curves of an evaluation as pictures: one SVG a curve, with the curves of single classes in one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.base.markup import Markup, el

# Curves in one picture; more cannot be told apart.
MAX_CURVES = 10
# Classes of a matrix that is drawn; a larger one is read in curves.json.
MAX_SIDE = 100
_MAX_SIDE_WITH_NUMBERS = 30
_PER_CLASS = re.compile(r"(.+)_class_(.+)")
# The number that belongs to a curve, and to its title.
_MEASURES = {"roc_curve": "auroc", "pr_curve": "average_precision", "calibration_error": "calibration_error"}
_TITLES = {
    "roc_curve": "ROC curve",
    "pr_curve": "Precision and recall",
    "calibration_error": "Reliability",
}
# Curves that are held against the diagonal.
_WITH_DIAGONAL = ("roc", "reliability")


def pictures(curves: Mapping[str, Mapping[str, Any]], metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """File name -> SVG of what can be drawn.

    Args:
        curves: what curves.json holds (metric.py says in which form).
        metrics: `metrics` of evaluation.json, for the titles.
    """
    drawn: dict[str, str] = {}
    for name, members in _grouped(curves).items():
        first = next(iter(members.values()))
        body = _matrix(_words(name), first) if "cells" in first else _lines(name, members, metrics)
        if body:
            drawn[f"{re.sub(r'[^A-Za-z0-9_.-]', '-', name).lstrip('.')}.svg"] = body
    return drawn


def _grouped(curves: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Name -> "" or class -> curve."""
    groups: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, curve in curves.items():
        match = _PER_CLASS.fullmatch(name)
        base, of = (match[1], match[2]) if match else (name, "")
        groups.setdefault(base, {})[of] = curve
    return groups


def _lines(name: str, members: Mapping[str, Mapping[str, Any]], metrics: Mapping[str, Mapping[str, Any]]) -> str:
    known = {of: curve for of, curve in members.items() if _is_drawable(curve)}
    shown = dict(list(known.items())[:MAX_CURVES])
    if not shown:
        return ""
    first = next(iter(shown.values()))
    xs = [value for curve in shown.values() for value in curve["x"]]
    ys = [value for curve in shown.values() for value in curve["y"]]
    frame = Frame(_range(xs), _range(ys))
    body = frame.axes(str(first.get("x_label", "")), str(first.get("y_label", "")))
    if first.get("kind") in _WITH_DIAGONAL:
        low, high = max(frame.x_range[0], frame.y_range[0]), min(frame.x_range[1], frame.y_range[1])
        if high > low:
            body.append(el("path", class_="reference", d=frame.path([low, high], [low, high])))
    many = len(known) > 1
    for place, (of, curve) in enumerate(shown.items()):
        colour, dash = COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS)]
        line = el(
            "path", class_="curve", d=frame.path(curve["x"], curve["y"]), stroke=colour, stroke_dasharray=dash or None
        )
        dots = _dots(frame, curve, colour) if len(curve["x"]) <= 30 else []
        body.append(el("g", el("title", _legend(name, of, metrics)), line, *dots))
        if many:
            y = TOP + 10 + 18 * place
            key = {"x1": LEFT + SIDE + 18, "x2": LEFT + SIDE + 42, "y1": y, "y2": y, "stroke_width": 2}
            body.append(el("line", **key, stroke=colour, stroke_dasharray=dash or None))
            body.append(text(_legend(name, of, metrics), LEFT + SIDE + 48, y + 4))
    if len(known) > MAX_CURVES:
        more = f"and {len(known) - MAX_CURVES} more in curves.json"
        body.append(text(more, LEFT + SIDE + 18, TOP + 14 + 18 * MAX_CURVES, class_="soft"))
    title = _words(name) if many else f"{_words(name)}{_measured(name, next(iter(shown)), metrics)}"
    return picture(title, body, width=LEFT + SIDE + (170 if many else 24), height=TOP + SIDE + 50)


def _dots(frame: Frame, curve: Mapping[str, Any], colour: str) -> list[Markup]:
    """A few points are shown as such: between them nothing was measured."""
    return [
        el("circle", cx=frame.x(x), cy=frame.y(y), r=3, fill=colour)
        for x, y in zip(curve["x"], curve["y"], strict=True)
    ]


def _legend(name: str, of: str, metrics: Mapping[str, Mapping[str, Any]]) -> str:
    return f"{'class ' + of if of else 'all'}{_measured(name, of, metrics)}"


def _measured(name: str, of: str, metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """`, AUROC 0.98`, where that was measured."""
    measure = _MEASURES.get(name, "")
    entry = metrics.get(f"{measure}_class_{of}" if of else measure)
    words = "AUROC" if measure == "auroc" else measure.replace("_", " ")
    return f", {words} {entry['value']:.4g}" if entry else ""


def _matrix(title: str, matrix: Mapping[str, Any]) -> str:
    """A heat map: a row is a true class, and its colours are shares of the row."""
    rows, columns, cells = matrix["rows"], matrix["columns"], matrix["cells"]
    if not rows or not columns or max(len(rows), len(columns)) > MAX_SIDE:
        return ""
    side = max(4.0, min(40.0, 480.0 / max(len(rows), len(columns))))
    numbered = max(len(rows), len(columns)) <= _MAX_SIDE_WITH_NUMBERS
    names = [str(name)[:14] for name in rows]
    left = 44.0 + (7.0 * max(map(len, names)) if numbered else 0)
    top = 76.0 if numbered else 60.0
    body: list[Markup] = []
    for r, (name, row) in enumerate(zip(rows, cells, strict=True)):
        whole = sum(row) or 1
        for c, count in enumerate(row):
            share = count / whole
            told = el("title", f"target {name}, predicted {columns[c]}: {count:,} ({share:.1%})")
            x, y = left + c * side, top + r * side
            size = {"width": side - 1, "height": side - 1}
            opacity = round(0.06 + 0.94 * share, 3)
            body.append(el("rect", told, x=x, y=y, **size, fill=COLOURS[0], fill_opacity=f"{opacity:g}"))
            if numbered and count:
                ink = "#ffffff" if share > 0.45 else "var(--ink)"
                style = f"fill: {ink}; font-size: {min(11.0, side / 3):.1f}px"
                at = x + side / 2 - 0.5, y + side / 2 + 3.5
                body.append(text(_brief(count), *at, text_anchor="middle", style=style))
        if numbered:
            body.append(text(names[r], left - 6, top + (r + 0.5) * side + 3.5, text_anchor="end"))
    if numbered:
        for c, column in enumerate(columns):
            body.append(text(_fitting(str(column), side), left + (c + 0.5) * side, top - 6, text_anchor="middle"))
    width, height = left + len(columns) * side + 20, top + len(rows) * side + 20
    x_label, y_label = str(matrix.get("column_label", "predicted")), str(matrix.get("row_label", "target"))
    body.append(text(x_label, left + len(columns) * side / 2, top - 22, text_anchor="middle", class_="soft"))
    middle = top + len(rows) * side / 2
    turned = f"rotate(-90 16 {middle:.1f})"
    body.append(text(y_label, 16, middle, text_anchor="middle", class_="soft", transform=turned))
    return picture(title, body, width=max(width, 220.0), height=height)


def _is_drawable(curve: Mapping[str, Any]) -> bool:
    xs, ys = curve.get("x"), curve.get("y")
    return bool(xs) and bool(ys) and len(xs) == len(ys) and all(map(_is_finite, (*xs, *ys)))


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """[0, 1] where the values are shares."""
    low, high = min(values), max(values)
    return (0.0, 1.0) if low >= 0 and high <= 1 else (float(low), float(high))


def _words(name: str) -> str:
    return _TITLES.get(name) or name.replace("_", " ").capitalize()


def _brief(count: float) -> str:
    for factor, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= factor:
            return f"{count / (1e3 if suffix == 'k' else factor):.3g}{suffix}"
    return f"{count:g}"


def _fitting(name: str, side: float) -> str:
    most = max(2, int(side / 6))
    return name if len(name) <= most else name[: most - 1] + "…"


# Okabe and Ito's colours, which people who see few colours can tell apart (jfly.uni-koeln.de/color), as far as they
# stand out on white and on black; then dashes tell.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES = ("", "6 3", "2 2")

STYLE = """
svg { font: 11px system-ui, sans-serif; --ink: #1a1a1a; --soft: #767676; --grid: #e4e4e4; --paper: #ffffff }
@media (prefers-color-scheme: dark) {
  svg { --ink: #ededed; --soft: #9a9a9a; --grid: #3a3a3a; --paper: #161616 }
}
.paper { fill: var(--paper) } text { fill: var(--ink) } .soft { fill: var(--soft) }
.grid { stroke: var(--grid) } .base { stroke: var(--soft) } .title { font-size: 14px; font-weight: 600 }
.reference { stroke: var(--soft); stroke-dasharray: 4 4; fill: none }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round }
"""

LEFT, TOP, SIDE, BOTTOM = 56.0, 44.0, 300.0, 46.0


def text(words: str, x: float, y: float, **attributes: str) -> Markup:
    return el("text", words, x=x, y=y, **attributes)


def picture(title: str, body: Sequence[Markup], *, width: float, height: float) -> str:
    """A whole file, which needs nothing else."""
    drawn = el(
        "svg",
        el("title", title),
        el("style", Markup(STYLE)),
        el("rect", class_="paper", width=width, height=height),
        text(title, 16, 24, class_="title"),
        body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=width,
        height=height,
        role="img",
    )
    return f"{drawn}\n"


class Frame:
    """A square with both axes from `low` to `high`."""

    def __init__(self, x_range: tuple[float, float], y_range: tuple[float, float]) -> None:
        self.x_range, self.y_range = _wide(x_range), _wide(y_range)

    def x(self, value: float) -> float:
        low, high = self.x_range
        return LEFT + (value - low) / (high - low) * SIDE

    def y(self, value: float) -> float:
        low, high = self.y_range
        return TOP + SIDE - (value - low) / (high - low) * SIDE

    def axes(self, x_label: str, y_label: str) -> list[Markup]:
        drawn: list[Markup] = []
        for place in range(6):
            x = self.x_range[0] + (self.x_range[1] - self.x_range[0]) * place / 5
            y = self.y_range[0] + (self.y_range[1] - self.y_range[0]) * place / 5
            drawn += [
                el("line", class_="grid", x1=LEFT, x2=LEFT + SIDE, y1=self.y(y), y2=self.y(y)),
                el("line", class_="grid", x1=self.x(x), x2=self.x(x), y1=TOP, y2=TOP + SIDE),
                text(f"{y:.3g}", LEFT - 7, self.y(y) + 4, text_anchor="end"),
                text(f"{x:.3g}", self.x(x), TOP + SIDE + 16, text_anchor="middle"),
            ]
        middle = TOP + SIDE / 2
        return [
            *drawn,
            el("line", class_="base", x1=LEFT, x2=LEFT + SIDE, y1=TOP + SIDE, y2=TOP + SIDE),
            el("line", class_="base", x1=LEFT, x2=LEFT, y1=TOP, y2=TOP + SIDE),
            text(x_label, LEFT + SIDE / 2, TOP + SIDE + 36, text_anchor="middle", class_="soft"),
            text(
                y_label, 16, middle, text_anchor="middle", class_="soft", transform=f"rotate(-90 16 {_short(middle)})"
            ),
        ]

    def path(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        points = (f"{_short(self.x(x))},{_short(self.y(y))}" for x, y in zip(xs, ys, strict=True))
        return "M" + " L".join(points)


def _wide(given: tuple[float, float]) -> tuple[float, float]:
    low, high = given
    if high > low:
        return low, high
    margin = abs(low) * 0.1 or 0.5
    return low - margin, high + margin


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
