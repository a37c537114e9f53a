"""Values with their intervals, one a row, on one scale, beside a value to compare them with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drivetrain.base.formatting import cut, number, signed
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling.charts.frame import CHARACTER, Axis, figure, key, svg, tick_marks, ticks

WIDTH, ROW, TOP, BOTTOM = 400.0, 22.0, 8.0, 24.0
NAME_CELLS, VALUE_CELLS = 16, 9
NAME, VALUE = 14 + NAME_CELLS * CHARACTER, VALUE_CELLS * CHARACTER


@dataclass(frozen=True, kw_only=True)
class Row:
    """A value, its interval where there is one, a few words for the pointer that rests on it, and a limit to draw."""

    name: str
    value: float
    interval: tuple[float, float] | None = None
    note: str = ""
    limit: float | None = None
    tone: str = ""


def dot_plot(
    title: str,
    rows: Sequence[Row],
    *,
    reference: float | None = None,
    reference_name: str = "overall",
    differences: bool = False,
    from_zero: bool = False,
    note: Content = None,
) -> Markup:
    """Rows from top to bottom in the order given. `differences` writes values with their sign; `from_zero` begins the
    scale there."""
    write = signed if differences else number
    scale = _scale(rows, reference, from_zero=from_zero)
    height = TOP + ROW * len(rows) + BOTTOM
    described = "; ".join(f"{row.name} {write(row.value)}" for row in rows[:20])
    more = f"; {len(rows) - 20} more" if len(rows) > 20 else ""
    bottom = height - BOTTOM
    drawn: list[Content] = [
        el("line", x1=scale.at(tick), x2=scale.at(tick), y1=TOP, y2=bottom, class_="grid") for tick, _ in scale.marks
    ]
    drawn += scale.labels_below(bottom + 16, WIDTH)
    if reference is not None and math.isfinite(reference):
        at = scale.at(reference)
        drawn.append(
            el(
                "g",
                el("title", f"{reference_name} {write(reference)}"),
                el("line", x1=at, x2=at, y1=TOP, y2=bottom, class_="reference"),
            )
        )
    drawn += [_row(scale, row, TOP + ROW * place + ROW / 2, write) for place, row in enumerate(rows)]
    legend = None if reference is None else key("rule", reference_name, write(reference))
    told = f"{title}: {described}{more}"
    picture = svg(told, drawn, size=(WIDTH, height), kind="chart dots")
    return figure(title, [legend, note], picture)


def _scale(rows: Sequence[Row], reference: float | None, *, from_zero: bool) -> Axis:
    """Round numbers at its ends, and never beyond [0, 1] where all values lie in it."""
    values = [row.value for row in rows]
    values += [end for row in rows if row.interval for end in row.interval]
    values += [row.limit for row in rows if row.limit is not None]
    values += [reference] if reference is not None else []
    values += [0.0] if from_zero else []
    values = [value for value in values if math.isfinite(value)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    places = ticks(low, high, 5)
    if low >= 0 and high <= 1:
        places = [tick for tick in places if 0 <= tick <= 1] or [0.0, 1.0]
    low, high = min(places[0], low), max(places[-1], high)
    return Axis(low, high, NAME, WIDTH - VALUE - 12, tick_marks(places))


def _row(scale: Axis, row: Row, y: float, write: Callable[[float], str]) -> Markup:
    said = write(row.value)
    between = ""
    line = None
    if row.interval is not None:
        left, right = (scale.at(end) for end in row.interval)
        between = f", interval {number(row.interval[0])} to {number(row.interval[1])}"
        line = el("line", x1=left, x2=right, y1=y, y2=y, class_="between")
    limit = None
    if row.limit is not None:
        at = scale.at(row.limit)
        limit = el("line", x1=at, x2=at, y1=y - 8, y2=y + 8, class_="limit")
    return el(
        "g",
        el("title", f"{row.name}: {said}{between}{f', {row.note}' if row.note else ''}"),
        el("rect", x=0, y=y - ROW / 2, width=WIDTH, height=ROW, class_="reach"),
        el("text", cut(row.name, NAME_CELLS), x=NAME - 14, y=y + 4, text_anchor="end", class_="label"),
        line,
        limit,
        el("circle", cx=scale.at(row.value), cy=y, r=4.2, class_="mark"),
        el("text", said, x=WIDTH - 4, y=y + 4, text_anchor="end", class_="value"),
        class_=f"row {row.tone}".rstrip(),
    )
