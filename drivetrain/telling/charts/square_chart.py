"""Curves of rates over rates: ROC, precision over recall, how often what was predicted so surely came true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from drivetrain.base.formatting import number
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling.charts.charts import bottom_labels, room_beside, tick_text, ticks

SIDE = 360.0
TOP, RIGHT, BOTTOM = 10.0, 14.0, 40.0
# Lines that can be told apart by their colours; the others are drawn behind them in grey.
MAX_NAMED = 4
MAX_DOTS = 24


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve in the order of its points; `note` is what is said behind its name. `counts` makes points that rest on
    more samples larger; `intervals` are those of each point's y."""

    name: str
    points: Sequence[tuple[float, float]]
    note: str = ""
    counts: Sequence[float] = ()
    intervals: Sequence[tuple[float, float]] = ()


def square_chart(
    title: str,
    lines: Sequence[Line],
    *,
    others: Sequence[Line] = (),
    others_name: str = "",
    x_label: str = "",
    y_label: str = "",
    diagonal: str = "",
    mark: tuple[float, str] | None = None,
    band: tuple[float, float] | None = None,
) -> Markup:
    """`lines` in colours with a legend, `others` in grey behind them; `diagonal` names the line from 0 to 1. `mark` is
    an upright line at an x with its name, and `band` the interval of it."""
    lines = lines[:MAX_NAMED]
    frame = _Frame([point for line in (*lines, *others) for point in line.points])
    body: list[Content] = [frame.axes(x_label, y_label)]
    if diagonal:
        body.append(
            el("g", el("title", diagonal), el("line", x1=frame.x(0), y1=frame.y(0), x2=frame.x(1), y2=frame.y(1),
                                              class_="chance"))
        )  # fmt: skip
    if band is not None:
        left, right = (min(max(frame.x(end), frame.left), frame.right) for end in band)
        body.append(el("rect", el("title", f"interval {number(band[0])} to {number(band[1])}"), x=left, y=TOP,
                       width=right - left, height=frame.bottom - TOP, class_="interval-band"))  # fmt: skip
    if mark is not None:
        at = frame.x(mark[0])
        body.append(
            el("g", el("title", mark[1]), el("line", x1=at, x2=at, y1=TOP, y2=frame.bottom, class_="reference"))
        )
    body += [
        el("g", el("title", line.name), el("path", d=frame.path(line.points), class_="other-line")) for line in others
    ]
    # The first is drawn last: it is the one that matters most.
    body += reversed([_line(frame, place, line) for place, line in enumerate(lines, 1)])
    keys = [
        el("span", el("i", class_=f"key s{place}"), f" {line.name} ", el("b", line.note) if line.note else None,
           class_="legend")
        for place, line in enumerate(lines, 1)
    ]  # fmt: skip
    if others:
        keys.append(el("span", el("i", class_="key other"), f" {others_name}", class_="legend"))
    if mark is not None:
        keys.append(el("span", el("i", class_="rule"), f" {mark[1]}", class_="legend"))
    told = "; ".join([*(f"{line.name} {line.note}".rstrip() for line in lines), *([mark[1]] if mark else [])])
    picture = el(
        "svg",
        el("title", f"{title}: {told}"),
        body,
        viewBox=f"0 0 {SIDE:.0f} {SIDE - 40:.0f}",
        class_="chart",
        role="img",
        aria_label=f"{title}: {told}",
    )
    return el("figure", el("figcaption", el("b", title), keys), picture, class_="curve square")


def _line(frame: _Frame, place: int, line: Line) -> Markup:
    sized = len(line.counts) == len(line.points) and max(line.counts, default=0) > 0
    shown = [(*point, count) for point, count in zip(line.points, line.counts, strict=True)] if sized else None
    most = max(line.counts, default=1.0)
    ranges = line.intervals if sized and len(line.intervals) == len(line.points) else ()
    marks = [
        el(
            "g",
            el("title", f"{line.name}: {number(y)}{_between_words(each)} at {number(x)}{_on(count)}"),
            el("line", x1=frame.x(x), x2=frame.x(x), y1=frame.y(each[0]), y2=frame.y(each[1]), class_="between")
            if each
            else None,
            el("circle", cx=frame.x(x), cy=frame.y(y), r=8, class_="reach"),
            el("circle", cx=frame.x(x), cy=frame.y(y), r=_radius(count, most), class_="dot"),
        )
        for (x, y, count), each in zip_longest(shown or [(x, y, None) for x, y in frame.apart(line.points)], ranges)
    ]
    name = "curve-line sized" if sized else "curve-line"
    return el("g", el("path", d=frame.path(line.points), class_=name), marks, class_=f"s{place}")


def _between_words(interval: tuple[float, float] | None) -> str:
    return f" ({number(interval[0])} to {number(interval[1])})" if interval else ""


def _on(samples: float | None) -> str:
    return "" if samples is None else f", on {number(int(samples) if samples == int(samples) else samples)} samples"


def _radius(count: float | None, most: float) -> float:
    """The area of a dot is that of its count."""
    return 2.4 if count is None else 1.5 + 6.0 * math.sqrt(count / most)


class _Frame:
    """From values to pixels: the unit square where all values lie in it, else round numbers around them."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self.x_ticks = _axis([x for x, _ in points])
        self.y_ticks = _axis([y for _, y in points])
        # The name of the axis stands to the left of its labels.
        self.left = room_beside([tick_text(tick, self.y_ticks) + "   " for tick in self.y_ticks])
        self.right, self.bottom = SIDE - RIGHT, SIDE - 40 - BOTTOM

    def x(self, value: float) -> float:
        first, last = self.x_ticks[0], self.x_ticks[-1]
        return self.left + (value - first) / (last - first) * (self.right - self.left)

    def y(self, value: float) -> float:
        first, last = self.y_ticks[0], self.y_ticks[-1]
        return self.bottom - (value - first) / (last - first) * (self.bottom - TOP)

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        """A path of the points that can be told apart on the picture."""
        kept: list[tuple[float, float]] = []
        for x, y in points:
            at = (round(self.x(x), 1), round(self.y(y), 1))
            if kept and math.dist(at, kept[-1]) < 1.0:
                continue
            # A point between two others on one level or one column says nothing.
            if len(kept) > 1 and _between(kept[-2], kept[-1], at):
                kept[-1] = at
            else:
                kept.append(at)
        last = (round(self.x(points[-1][0]), 1), round(self.y(points[-1][1]), 1))
        kept += [last] if kept[-1] != last else []
        return "M" + " L".join(f"{x:g},{y:g}" for x, y in kept)

    def apart(self, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """At most MAX_DOTS of the points, as evenly along the curve as they lie."""
        if len(points) <= MAX_DOTS:
            return list(points)
        places = [(self.x(x), self.y(y)) for x, y in points]
        length = sum(math.dist(a, b) for a, b in pairwise(places))
        kept, since = [points[0]], 0.0
        for before, at, point in zip(places, places[1:], points[1:], strict=False):
            since += math.dist(before, at)
            if since >= length / (MAX_DOTS - 2):
                kept.append(point)
                since = 0.0
        return kept[:MAX_DOTS]

    def axes(self, x_label: str, y_label: str) -> Content:
        for tick in self.y_ticks:
            yield el("line", x1=self.left, x2=self.right, y1=self.y(tick), y2=self.y(tick), class_="grid")
            yield el("text", tick_text(tick, self.y_ticks), x=self.left - 7, y=self.y(tick) + 3.5, text_anchor="end")
        for tick in self.x_ticks:
            yield el("line", x1=self.x(tick), x2=self.x(tick), y1=self.bottom, y2=self.bottom + 4, class_="tick")
        marks = [(self.x(tick), tick_text(tick, self.x_ticks)) for tick in self.x_ticks]
        yield from bottom_labels(marks, self.bottom + 16, SIDE)
        yield el("line", x1=self.left, x2=self.right, y1=self.bottom, y2=self.bottom, class_="base")
        yield el("text", x_label, x=(self.left + self.right) / 2, y=self.bottom + 34, text_anchor="middle")
        middle = (TOP + self.bottom) / 2
        yield el("text", y_label, x=12, y=middle, text_anchor="middle", transform=f"rotate(-90 12 {middle:.1f})")


def _between(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b lies on the level or upright line from a to c."""
    level = a[1] == b[1] == c[1] and (a[0] <= b[0] <= c[0] or a[0] >= b[0] >= c[0])
    return level or (a[0] == b[0] == c[0] and (a[1] <= b[1] <= c[1] or a[1] >= b[1] >= c[1]))


def _axis(values: Sequence[float]) -> list[float]:
    if all(0 <= value <= 1 for value in values):
        return [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    return ticks(min(values), max(values), 5)
