"""Curves of rates over rates: ROC, precision over recall, how often what was predicted so surely came true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from drivetrain.base.formatting import number
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling.charts.frame import RIGHT, Axis, Frame, figure, key, room_beside, svg, ticks

SIDE = 360.0
TOP, BOTTOM = 10.0, 40.0
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
    frame = _Frame.around([point for line in (*lines, *others) for point in line.points])
    body: list[Content] = [frame.axes(x_label, y_label)]
    if diagonal:
        body.append(
            el("g", el("title", diagonal), el("line", x1=frame.x(0), y1=frame.y(0), x2=frame.x(1), y2=frame.y(1),
                                              class_="chance"))
        )  # fmt: skip
    if band is not None:
        left, right = (frame.across.inside(end) for end in band)
        body.append(el("rect", el("title", f"interval {number(band[0])} to {number(band[1])}"), x=left, y=TOP,
                       width=right - left, height=frame.up.start - TOP, class_="interval-band"))  # fmt: skip
    if mark is not None:
        at = frame.x(mark[0])
        body.append(
            el("g", el("title", mark[1]), el("line", x1=at, x2=at, y1=TOP, y2=frame.up.start, class_="reference"))
        )
    body += [
        el("g", el("title", line.name), el("path", d=frame.path(line.points), class_="other-line")) for line in others
    ]
    # The first is drawn last: it is the one that matters most.
    body += reversed([_line(frame, place, line) for place, line in enumerate(lines, 1)])
    keys = [key(f"key s{place}", line.name, line.note) for place, line in enumerate(lines, 1)]
    keys += [key("key other", others_name)] if others else []
    keys += [key("rule", mark[1])] if mark else []
    told = "; ".join([*(f"{line.name} {line.note}".rstrip() for line in lines), *([mark[1]] if mark else [])])
    picture = svg(f"{title}: {told}", body, size=(SIDE, SIDE - 40), kind="chart")
    return figure(title, keys, picture, kind="curve square")


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


class _Frame(Frame):
    """The unit square where all values lie in it, else round numbers around them."""

    @classmethod
    def around(cls, points: Sequence[tuple[float, float]]) -> _Frame:
        up = Axis.of(_ticks([y for _, y in points]), SIDE - 40 - BOTTOM, TOP)
        # The name of the axis stands to the left of its labels.
        left = room_beside(text + "   " for _, text in up.marks)
        return cls(Axis.of(_ticks([x for x, _ in points]), left, SIDE - RIGHT), up, SIDE)

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


def _between(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Return True if b lies on the level or upright line from a to c."""
    level = a[1] == b[1] == c[1] and (a[0] <= b[0] <= c[0] or a[0] >= b[0] >= c[0])
    return level or (a[0] == b[0] == c[0] and (a[1] <= b[1] <= c[1] or a[1] >= b[1] >= c[1]))


def _ticks(values: Sequence[float]) -> list[float]:
    if all(0 <= value <= 1 for value in values):
        return [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    return ticks(min(values), max(values), 5)
