"""Columns and nights as a picture, by how far each night lay from what was expected; and two distributions as bars."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import cut, share
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling.charts.frame import bottom_labels, figure, key, room_beside, svg
from drivetrain.telling.content.data_check import Distributions, NightsOfColumn

WIDTH, ROW, HEIGHT = 720.0, 16.0, 96.0
# A night so many standard deviations away is drawn in full.
FULL = 8.0
_NAME_CELLS = 24
_EACH_DAY = 7


def night_map(title: str, days: Sequence[str], columns: Sequence[NightsOfColumn]) -> Markup:
    """A row a column, a cell a night, the last one tonight. Darker cells lie further away."""
    names = [cut(each.column, _NAME_CELLS) for each in columns]
    left, top = room_beside(names) + 6, 4.0
    cell = (WIDTH - left) / max(len(days), 1)
    bottom = top + ROW * len(columns)
    drawn: list[Content] = []
    for place, (name, each) in enumerate(zip(names, columns, strict=True)):
        y = top + ROW * place
        drawn.append(el("text", name, x=left - 6, y=y + 12, text_anchor="end"))
        drawn += [
            _cell(left + cell * night, y, cell, each, days[night], distance)
            for night, distance in enumerate(each.distances)
            if night < len(days)
        ]
    marks = [(left + cell * (night + 0.5), day[5:]) for night, day in enumerate(days) if _is_marked(night, len(days))]
    drawn += bottom_labels(marks, bottom + 14, WIDTH)
    far = sum(each.verdict != "passed" for each in columns)
    summary = f"{title}: {len(columns)} columns, {len(days)} nights; {far} with an alarm tonight"
    picture = svg(summary, drawn, size=(WIDTH, bottom + 20), kind="chart nights", style=f"max-width:{WIDTH:.0f}px")
    return figure(title, el("span", "the last cell is tonight", class_="legend"), picture, scrolls=True)


def distributions(found: Distributions) -> Markup:
    """Bars in pairs: tonight's share of the values beside the other's."""
    step = WIDTH / 2 / len(found.names)
    most = max(*found.tonight, *found.other, 1e-9)
    drawn: list[Content] = []
    for place, (name, tonight, other) in enumerate(zip(found.names, found.tonight, found.other, strict=True)):
        told = f"{name}: {share(tonight)} {found.name}, {share(other)} {found.other_name}"
        bars = [
            el(
                "rect",
                x=f"{step * (place + offset):.1f}",
                y=f"{HEIGHT * (1 - part / most):.1f}",
                width=f"{step * 0.45:.1f}",
                height=f"{HEIGHT * part / most:.1f}",
                class_=kind,
            )
            for part, offset, kind in ((other, 0.05, "s2"), (tonight, 0.5, "s1"))
        ]
        area = el("rect", x=f"{step * place:.1f}", y=0, width=f"{step:.1f}", height=HEIGHT, class_="area")
        drawn.append(el("g", el("title", told), area, bars))
    ends = [(0.0, found.names[0]), (WIDTH / 2, found.names[-1])] if len(found.names) > 1 else []
    drawn += [
        el("text", cut(name, 18), x=x, y=HEIGHT + 14, text_anchor="end" if x else "start", class_="end")
        for x, name in ends
    ]
    legend = [key("key s1", found.name), key("key s2", found.other_name)]
    told = f"{found.column}: values {found.name} and {found.other_name}"
    picture = svg(told, drawn, size=(WIDTH / 2, HEIGHT + 18), kind="chart pair")
    return figure(found.column, legend, picture)


def _cell(x: float, y: float, width: float, column: NightsOfColumn, day: str, distance: float | None) -> Markup:
    if distance is None:
        title, depth = f"{column.column}, {day}: not judged", 0.0
    else:
        title = f"{column.column}, {day}: {distance:.1f} standard deviations"
        depth = min(abs(distance) / FULL, 1.0) ** 2
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{max(width - 0.5, 1):.1f}", "height": ROW - 1}
    body = [el("title", title), el("rect", **place, class_="empty")]
    if depth:
        body.append(el("rect", **place, class_="far", style=f"fill-opacity:{max(depth, 0.03):.2f}"))
    return el("g", body)


def _is_marked(night: int, nights: int) -> bool:
    return (nights - 1 - night) % _EACH_DAY == 0
