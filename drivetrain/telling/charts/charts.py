"""Line and bar charts as SVG: axes with round numbers, and the exact value when the pointer rests on a mark. Also a
curve without axes, as small as a word, for lists.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from drivetrain.base.formatting import cut, number
from drivetrain.base.markup import Content, Markup, el, escape
from drivetrain.telling.charts.frame import (
    BOTTOM,
    RIGHT,
    TOP,
    Axis,
    Frame,
    figure,
    key,
    line_through,
    room_beside,
    svg,
    text_width,
    tick_marks,
    ticks,
)

WIDTH, HEIGHT = 360, 216
# A curve is drawn 400 pixels wide; more points than this cannot be told apart.
MAX_POINTS = 400
# Points with a mark that tells the value: the pointer could not rest on one of more.
MAX_MARKS = 60
MAX_SERIES = 12
MAX_CUTS = 60
_NAME_CELLS = 14
_SPARK_WIDTH, _SPARK_HEIGHT, _EDGE = 96, 24, 3


@dataclass(frozen=True)
class Series:
    """A named curve: (x, y) with x rising. `place` is the number of its style; None for its place in the chart."""

    name: str
    points: tuple[tuple[float, float], ...]
    place: int | None = None


@dataclass(frozen=True)
class Cut:
    """A mark at an x where something broke off; `words` say what."""

    x: float
    words: str


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    cuts: Sequence[Cut] = (),
    cuts_note: str = "",
) -> Markup:
    """Curves over one axis. Points that are not finite are left out, and said to be. `cuts_note` explains the cuts in
    the legend."""
    drawn = [
        Series(one.name, _thin([p for p in one.points if math.isfinite(p[1])], MAX_POINTS), one.place)
        for one in series[:MAX_SERIES]
    ]
    drawn = [one for one in drawn if one.points]
    lost = sum(not math.isfinite(y) for one in series for _, y in one.points)
    frame = _frame([x for one in drawn for x, _ in one.points], [y for one in drawn for _, y in one.points])
    inside = [cut for cut in cuts if frame.across.low <= cut.x <= frame.across.high][:MAX_CUTS]
    body: list[Content] = [frame.axes(x_label), *(_cut(frame, cut) for cut in inside)]
    body += [_curve(frame, place, one, x_label) for place, one in enumerate(drawn, 1)]
    if lost:
        body.append(
            el("text", f"{lost} values not finite", x=WIDTH - RIGHT, y=TOP + 10, class_="lost", text_anchor="end")
        )
    notes = [cuts_note] if inside and cuts_note else []
    told = [f"{one.name} from {number(one.points[0][1])} to {number(one.points[-1][1])}" for one in drawn]
    picture = svg(f"{title}: {'; '.join([*told, *notes])}", body, size=(WIDTH, HEIGHT), kind="chart")
    keys = [
        key(f"key s{one.place or place}", one.name, number(one.points[-1][1])) for place, one in enumerate(drawn, 1)
    ]
    return figure(title, [*keys, *(key("rule cut", note) for note in notes)], picture)


def _curve(frame: Frame, place: int, series: Series, x_label: str) -> Markup:
    path = line_through((frame.x(x), frame.y(y)) for x, y in series.points)
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


def _frame(xs: Sequence[float], ys: Sequence[float]) -> Frame:
    low, high = min(xs, default=0.0), max(xs, default=1.0)
    least = 1.0 if high > low and all(x == round(x) for x in xs) else 0.0  # between years are no ticks
    x_ticks = [tick for tick in ticks(low, high, 6, least) if low <= tick <= high] or [low]
    if high == low:
        low, high = low - 0.5, high + 0.5
    up = Axis.of(ticks(min(ys, default=0.0), max(ys, default=1.0), 5), HEIGHT - BOTTOM, TOP)
    across = Axis(low, high, room_beside(text for _, text in up.marks), WIDTH - RIGHT, tick_marks(x_ticks))
    return Frame(across, up, WIDTH)


def _cut(frame: Frame, cut: Cut) -> Markup:
    x = frame.x(cut.x)
    line = {"x1": x, "x2": x, "y1": frame.up.end, "y2": frame.up.start}
    return el("g", el("title", cut.words), el("line", **line, class_="reach"), el("line", **line, class_="cut"))


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


def bar_chart(title: str, bars: Sequence[tuple[str, float]]) -> Markup:
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
    room = WIDTH - name_width - value_width
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
            el("text", number(value), x=WIDTH - value_width + 8, y=top + 14, class_="value"),
        )

    told = f"{title}: " + ", ".join(f"{name} {number(value)}" for name, value in finite)
    drawn = [bar(place, name, value) for place, (name, value) in enumerate(finite)]
    return figure(title, None, svg(told, drawn, size=(WIDTH, height), kind="chart bars", title=title))


def sparkline(name: str, values: Sequence[float]) -> Markup | None:
    """The curve through values at equal distances, with a dot at its end; None of less than two finite ones."""
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2:
        return None
    low, high = min(finite), max(finite)
    reach = (high - low) or 1.0
    points = [
        (
            _EDGE + place * (_SPARK_WIDTH - 2 * _EDGE) / (len(finite) - 1),
            _SPARK_HEIGHT - _EDGE - (value - low) / reach * (_SPARK_HEIGHT - 2 * _EDGE),
        )
        for place, value in enumerate(finite)
    ]
    told = f"{name}: from {number(finite[0])} to {number(finite[-1])}"
    path = el("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points))
    end = el("circle", cx=points[-1][0], cy=points[-1][1], r=2.2)
    return svg(told, path, end, size=(_SPARK_WIDTH, _SPARK_HEIGHT), kind="spark")
