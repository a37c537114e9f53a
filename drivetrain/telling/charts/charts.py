"""Line and bar charts as SVG: axes with round numbers, and the exact value when the pointer rests on a mark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from drivetrain.base.formatting import cells, cut, number
from drivetrain.base.markup import Markup, el, escape

# A curve is drawn 400 pixels wide; more points than this cannot be told apart.
MAX_POINTS = 400
# Points with a mark that tells the value: the pointer could not rest on one of more.
MAX_MARKS = 60
MAX_SERIES = 12
MAX_CUTS = 60
_NAME_CELLS = 14

LEFT, TOP, RIGHT, BOTTOM = 50.0, 12.0, 14.0, 38.0
# Bound for the mean width of a character in pixels, by the fonts and the size of .chart; a wide one counts for two.
CHARACTER = 7.0


@dataclass(frozen=True)
class Series:
    """A named curve: (x, y) with x rising. `place` is the number of its style; None for its place in the chart."""

    name: str
    points: tuple[tuple[float, float], ...]
    place: int | None = None


@dataclass(frozen=True)
class Cut:
    """Where something broke off, at an x; `words` say what."""

    x: float
    words: str


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    cuts: Sequence[Cut] = (),
    cuts_note: str = "",
    width: int = 360,
    height: int = 216,
) -> Markup:
    """Curves over one axis. Points that are not finite are left out, and said to be. `cuts_note` explains the cuts in
    the legend."""
    drawn = [
        Series(one.name, _thin([p for p in one.points if math.isfinite(p[1])], MAX_POINTS), one.place)
        for one in series[:MAX_SERIES]
    ]
    drawn = [one for one in drawn if one.points]
    lost = sum(not math.isfinite(y) for one in series for _, y in one.points)
    frame = _Frame(
        [x for one in drawn for x, _ in one.points], [y for one in drawn for _, y in one.points], width, height
    )
    inside = [cut for cut in cuts if frame.low_x <= cut.x <= frame.high_x][:MAX_CUTS]
    body = [frame.axes(x_label), *(frame.cut(cut) for cut in inside)]
    body += [_curve(frame, place, one, x_label) for place, one in enumerate(drawn, 1)]
    if lost:
        body.append(
            el("text", f"{lost} values not finite", x=width - RIGHT, y=TOP + 10, class_="lost", text_anchor="end")
        )
    note = cuts_note if inside else ""
    told = [f"{one.name} from {number(one.points[0][1])} to {number(one.points[-1][1])}" for one in drawn]
    summary = "; ".join([*told, *([note] if note else [])])
    picture = el(
        "svg",
        el("title", f"{title}: {summary}"),
        body,
        viewBox=f"0 0 {width} {height}",
        class_="chart",
        role="img",
        aria_label=f"{title}: {summary}",
    )
    keys = [*_legend(drawn), *([el("span", el("i", class_="rule cut"), f" {note}", class_="legend")] if note else [])]
    return el("figure", el("figcaption", el("b", title), keys), picture, class_="curve")


def _legend(series: Sequence[Series]) -> list[Markup]:
    return [
        el(
            "span",
            el("i", class_=f"key s{one.place or place}"),
            f" {one.name} ",
            el("b", number(one.points[-1][1])),
            class_="legend",
        )
        for place, one in enumerate(series, 1)
    ]


def _curve(frame: _Frame, place: int, series: Series, x_label: str) -> Markup:
    path = "M" + " L".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in series.points)
    marks = [
        _mark(frame.x(at), frame.y(value), f"{series.name} {number(value)} at {number(at)} {x_label}")
        for at, value in _thin(series.points, MAX_MARKS)
    ]
    return el("g", el("path", d=path, class_="curve-line"), marks, class_=f"s{series.place or place}")


def _mark(x: float, y: float, words: str) -> Markup:
    """(As `el` would make it, in a tenth of the time: the page of a run that goes on has hundreds, again and again.)"""
    place = f'cx="{x:.1f}" cy="{y:.1f}"'
    circles = f'<circle {place} r="9" class="reach"/><circle {place} r="2.6" class="dot"/>'
    return Markup(f"<g><title>{escape(words)}</title>{circles}</g>")


class _Frame:
    """The mapping from values to pixels, and the axes."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float], width: int, height: int) -> None:
        self.width, self.height = width, height
        low, high = min(xs, default=0.0), max(xs, default=1.0)
        least = 1.0 if high > low and all(x == round(x) for x in xs) else 0.0  # between years are no ticks
        self.x_ticks = [tick for tick in ticks(low, high, 6, least) if low <= tick <= high] or [low]
        self.low_x, self.high_x = (low, high) if high > low else (low - 0.5, high + 0.5)
        self.y_ticks = ticks(min(ys, default=0.0), max(ys, default=1.0), 5)
        self.low_y, self.high_y = self.y_ticks[0], self.y_ticks[-1]
        self.left = room_beside([tick_text(tick, self.y_ticks) for tick in self.y_ticks])

    def x(self, value: float) -> float:
        return self.left + (value - self.low_x) / (self.high_x - self.low_x) * (self.width - self.left - RIGHT)

    def y(self, value: float) -> float:
        bottom = self.height - BOTTOM
        return bottom - (value - self.low_y) / (self.high_y - self.low_y) * (bottom - TOP)

    def cut(self, cut: Cut) -> Markup:
        x = self.x(cut.x)
        line = {"x1": x, "x2": x, "y1": TOP, "y2": self.height - BOTTOM}
        return el("g", el("title", cut.words), el("line", **line, class_="reach"), el("line", **line, class_="cut"))

    def axes(self, x_label: str) -> list[Markup]:
        right, bottom = self.width - RIGHT, self.height - BOTTOM
        rows = [
            (
                el("line", x1=self.left, x2=right, y1=self.y(tick), y2=self.y(tick), class_="grid"),
                el("text", tick_text(tick, self.y_ticks), x=self.left - 7, y=self.y(tick) + 3.5, text_anchor="end"),
            )
            for tick in self.y_ticks
        ]
        columns = [
            el("line", x1=self.x(tick), x2=self.x(tick), y1=bottom, y2=bottom + 4, class_="tick")
            for tick in self.x_ticks
        ]
        columns += bottom_labels(
            [(self.x(tick), tick_text(tick, self.x_ticks)) for tick in self.x_ticks], bottom + 16, self.width
        )
        middle = (self.left + right) / 2
        label = el("text", x_label, x=middle, y=self.height - 6, text_anchor="middle", class_="axis-label")
        return [
            el("g", rows, columns, class_="axis"),
            el("line", x1=self.left, x2=right, y1=bottom, y2=bottom, class_="base"),
            label,
        ]


def text_width(text: str) -> float:
    """Pixels that a text of a chart takes, at most."""
    return CHARACTER * cells(text)


def room_beside(labels: Sequence[str]) -> float:
    """Where an axis begins whose labels end 7 pixels to the left of it."""
    return max([LEFT, *(text_width(label) + 9 for label in labels)])


def bottom_labels(marks: Sequence[tuple[float, str]], y: float, width: float) -> list[Markup]:
    """The labels below an axis, (x, text) from left to right: every one, or every second, third, ..., so that none runs
    into the next; those at the edges of the picture are moved into it."""

    def placed(every: int) -> list[tuple[float, str]]:
        halves = [(x, text, text_width(text) / 2) for x, text in marks[::every]]
        return [(max(min(x, width - half), half), text) for x, text, half in halves]

    every = 1
    while any(b[0] - a[0] < (text_width(a[1]) + text_width(b[1])) / 2 + 4 for a, b in pairwise(placed(every))):
        every += 1
    return [el("text", text, x=x, y=y, text_anchor="middle") for x, text in placed(every)]


def ticks(low: float, high: float, about: int, least: float = 0.0) -> list[float]:
    """Round numbers (1, 2, 2.5 or 5 times a power of ten apart; `least` or more) that hold [low, high] between them."""
    if not high - low > 1e-290:
        margin = max(abs(low) * 0.1, 1e-280) if low else 0.5
        low, high = low - margin, high + margin
    rough = max((high - low) / max(about, 1), least)
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next((factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999), 10)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(12, 3 - math.floor(math.log10(step)))  # enough for losses of 1e-14, too
    return [round(place * step, digits) for place in range(first, last + 1)]


def tick_text(tick: float, all_ticks: Sequence[float]) -> str:
    """A tick with as many decimals as the distance between ticks needs."""
    step = min((b - a for a, b in pairwise(all_ticks)), default=1.0)
    if max(map(abs, all_ticks)) >= 1e6 or step < 1e-5:
        return f"{tick:.2g}"
    decimals = 0
    while decimals < 6 and abs(round(step, decimals) - step) > step * 1e-6:
        decimals += 1
    grouped = "," if max(map(abs, all_ticks)) >= 10_000 else ""  # 2026 may be a year
    return f"{tick:{grouped}.{decimals}f}"


def _thin(points: Sequence[tuple[float, float]], most: int) -> tuple[tuple[float, float], ...]:
    """At most so many of them: of each stretch the lowest and the highest stay, so that no spike is lost."""
    if len(points) <= most:
        return tuple(points)
    kept: list[tuple[float, float]] = [points[0]]
    stretches = (most - 2) // 2
    inner = points[1:-1]
    for number_of in range(stretches):
        part = inner[number_of * len(inner) // stretches : (number_of + 1) * len(inner) // stretches]
        kept += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return (*kept, points[-1])


def bar_chart(title: str, bars: Sequence[tuple[str, float]], *, width: int = 360) -> Markup:
    """Horizontal bars, one a name, with their value written behind; the scale starts at 0."""
    finite = [(name, value) for name, value in bars if math.isfinite(value)]
    shown = [cut(name, _NAME_CELLS) for name, _ in finite]
    row = 20.0
    name_width = max([76.0, *(text_width(name) + 9 for name in shown)])
    value_width = max([56.0, *(text_width(number(value)) + 9 for _, value in finite)])
    low, high = min([0.0, *(v for _, v in finite)]), max([0.0, *(v for _, v in finite)])
    if all(0 <= value <= 1 for _, value in finite):
        high = 1.0
    span = (high - low) or 1.0
    room = width - name_width - value_width
    zero = name_width + (0 - low) / span * room
    height = max(row * len(finite), 1)

    def bar(place: int, name: str, value: float) -> Markup:
        end = name_width + (value - low) / span * room
        top = place * row
        return el(
            "g",
            el("title", f"{name}: {number(value)}"),
            el("text", shown[place], x=name_width - 8, y=top + 14, text_anchor="end"),
            el("rect", x=name_width, y=top + 4, width=room, height=12, rx=3, class_="track"),
            el("rect", x=min(zero, end), y=top + 4, width=abs(end - zero), height=12, rx=3, class_="bar"),
            el("text", number(value), x=width - value_width + 8, y=top + 14, class_="value"),
        )

    picture = el(
        "svg",
        el("title", title),
        [bar(place, name, value) for place, (name, value) in enumerate(finite)],
        viewBox=f"0 0 {width} {height:.0f}",
        class_="chart bars",
        role="img",
        aria_label=f"{title}: " + ", ".join(f"{name} {number(value)}" for name, value in finite),
    )
    return el("figure", el("figcaption", el("b", title)), picture, class_="curve")
