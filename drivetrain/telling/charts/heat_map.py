"""A confusion matrix as a picture: how often a true class (a row) was taken for which class (a column)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from drivetrain.base.formatting import cells, count, cut, number, share
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import table
from drivetrain.telling.charts.frame import figure, svg, text_width
from drivetrain.telling.content.plotted import PlottedMatrix

# Beyond this a cell is a speck; the most frequent confusions are told instead.
MAX_SIDE = 40
MAX_WRITTEN = 15
MAX_CONFUSIONS = 10
NAME_CELLS = 14
_ACROSS, _DOWN = "predicted class", "true class"


def heat_map(title: str, matrix: PlottedMatrix) -> Markup:
    """The picture, shaded by the share of each row, and the most frequent confusions in words."""
    small = max(len(matrix.rows), len(matrix.columns)) <= MAX_SIDE
    too_many = f"{len(matrix.rows):,} classes are too many for a picture."
    side = None if small else el("span", too_many, class_="legend")
    confused = _confusions(matrix)
    told = [
        (
            f"{cut(row, 40)} taken for {cut(column, 40)}",
            f"{_amount(many)} of {_amount(total)}",
            share(many / total),
        )
        for row, column, many, total in confused[:MAX_CONFUSIONS]
    ]
    more = len(confused) - MAX_CONFUSIONS
    caption = "Most frequent confusions" + (f", {MAX_CONFUSIONS} of {len(confused):,}" if more > 0 else "")
    return el(
        "div",
        figure(title, side, _Picture(matrix).drawn(title) if small else None, scrolls=small),
        table((), told, right=(1, 2), caption=caption, style="spent") if told else None,
        class_="charts confusion",
    )


def _confusions(matrix: PlottedMatrix) -> list[tuple[str, str, float, float]]:
    """(true class, predicted class, how often, how many of the true class), the most frequent first."""

    def found() -> Iterator[tuple[str, str, float, float]]:
        for row, line in zip(matrix.rows, matrix.cells, strict=True):
            total = sum(line)
            for column, value in zip(matrix.columns, line, strict=True):
                if value > 0 and column != row:
                    yield row, column, value, total

    return sorted(found(), key=lambda entry: -entry[2])


class _Picture:
    def __init__(self, matrix: PlottedMatrix) -> None:
        self.matrix = matrix
        most = max(len(matrix.rows), len(matrix.columns))
        self.written = most <= MAX_WRITTEN
        longest = max((len(_short(cell)) for row in matrix.cells for cell in row), default=1)
        # A cell takes its number: 7 pixels a digit.
        self.cell = max(34.0 if most < 12 else 28.0, 7.0 * longest + 8) if self.written else max(9.0, 420 / most)
        rows = [cut(name, NAME_CELLS) for name in matrix.rows]
        columns = [cut(name, NAME_CELLS) for name in matrix.columns]
        self.row_names, self.column_names = rows, columns
        self.every = 1 if self.cell >= 11 else 2
        # Beside the names of the rows, and room for half of the axis' name beside the middle of few columns.
        self.left = max(26 + 7.0 * max(map(cells, rows)), (text_width(_ACROSS) - self.cell * len(columns)) / 2)
        self.upright = 7.0 * max(map(cells, columns)) > self.cell * self.every - 2
        self.top = 28 + (7.0 * max(map(cells, columns)) if self.upright else 10.0)
        self.middle = self.left + self.cell * len(columns) / 2
        self.width = max(self.left + self.cell * len(columns), self.middle + text_width(_ACROSS) / 2) + 2
        self.height = self.top + max(self.cell * len(rows), (self.cell * len(rows) + text_width(_DOWN)) / 2) + 2

    def drawn(self, title: str) -> Markup:
        diagonal = [line[place] for place, line in enumerate(self.matrix.cells) if place < len(line)]
        total = sum(map(sum, self.matrix.cells))
        right = f"{_amount(sum(diagonal))} of {_amount(total)} on the diagonal" if total else "empty"
        summary = f"{title}: {count(len(self.row_names), 'class', 'classes')}, {right}"
        body = [self._names(), [self._line(place) for place in range(len(self.row_names))]]
        style = f"max-width:{self.width:.0f}px"
        return svg(summary, body, size=(self.width, self.height), kind="chart heat", style=style)

    def _names(self) -> Content:
        yield el("text", _ACROSS, x=self.middle, y=12, text_anchor="middle", class_="axis-label")
        across = self.top + self.cell * len(self.row_names) / 2
        turned = f"rotate(-90 11 {across:.1f})"
        yield el("text", _DOWN, x=11, y=across, text_anchor="middle", transform=turned, class_="axis-label")
        for place, name in enumerate(self.row_names):
            if place % self.every == 0:
                y = self.top + self.cell * (place + 0.5) + 4
                yield el("text", name, x=self.left - 6, y=y, text_anchor="end")
        for place, name in enumerate(self.column_names):
            if place % self.every == 0:
                x = self.left + self.cell * (place + 0.5)
                if self.upright:
                    turn = f"rotate(-90 {x + 4:.1f} {self.top - 6:.1f})"
                    yield el("text", name, x=x + 4, y=self.top - 6, transform=turn)
                else:
                    yield el("text", name, x=x, y=self.top - 6, text_anchor="middle")

    def _line(self, row: int) -> Content:
        line = self.matrix.cells[row]
        total = sum(line)
        for column, value in enumerate(line):
            part = value / total if total else 0.0
            right = self.matrix.rows[row] == self.matrix.columns[column]
            x, y = self.left + self.cell * column, self.top + self.cell * row
            # The square root makes a few confusions visible beside a full diagonal.
            depth = math.sqrt(part) if not right else part
            told = f"{self.matrix.rows[row]} taken for {self.matrix.columns[column]}: {_amount(value)}"
            body: list[Content] = [
                el("title", f"{told} of {_amount(total)}, {share(part)}"),
                el("rect", x=x, y=y, width=self.cell, height=self.cell, class_="empty"),
            ]
            if value:
                opacity = f"fill-opacity:{max(depth, 0.06):.2f}"
                name = "hit" if right else "miss"
                body.append(el("rect", x=x, y=y, width=self.cell, height=self.cell, class_=name, style=opacity))
            if self.written and value:
                style = "on" if depth > 0.55 else "number"
                body.append(
                    el("text", _short(value), x=x + self.cell / 2, y=y + self.cell / 2 + 4, text_anchor="middle",
                       class_=style)
                )  # fmt: skip
            yield el("g", body)


def _amount(value: float) -> str:
    return number(int(value) if value == int(value) else value)


def _short(value: float) -> str:
    """A count in a cell: 0, 987, 12k, 3.4M."""
    if value != int(value):
        return f"{value:.2g}"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:.0f}{unit}" if scaled >= 10 else f"{scaled:.1f}{unit}"
    return f"{value:.0f}"
