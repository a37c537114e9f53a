"""Parts of all charts: axes with round numbers, the frame around a plot, keys of a legend, and the figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from drivetrain.base.formatting import cells
from drivetrain.base.markup import Content, Markup, el

LEFT, TOP, RIGHT, BOTTOM = 50.0, 12.0, 14.0, 38.0
# Bound for the mean width of a character in pixels, by the fonts and the size of .chart; a wide one counts for two.
CHARACTER = 7.0


@dataclass(frozen=True)
class Axis:
    """From values to pixels: `low` lies at `start`, `high` at `end`; `marks` are its ticks, (value, text)."""

    low: float
    high: float
    start: float
    end: float
    marks: Sequence[tuple[float, str]]
    logarithmic: bool = False

    @classmethod
    def of(cls, places: Sequence[float], start: float, end: float) -> Axis:
        """From the first tick to the last one."""
        return cls(places[0], places[-1], start, end, tick_marks(places))

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (value - low) / ((high - low) or 1.0) * (self.end - self.start)

    def inside(self, value: float) -> float:
        """The position of a value; the nearer end if it is beyond the axis."""
        return self.at(min(max(value, self.low), self.high))

    def labels_below(self, y: float, width: float) -> list[Markup]:
        """The texts of the ticks, in a picture of this width."""
        return bottom_labels([(self.at(value), text) for value, text in self.marks], y, width)


@dataclass(frozen=True)
class Frame:
    """A plot between an axis across, which lies at the bottom, and an upright one, in a picture of this width."""

    across: Axis
    up: Axis
    width: float

    def x(self, value: float) -> float:
        return self.across.at(value)

    def y(self, value: float) -> float:
        return self.up.at(value)

    def levels(self) -> list[Content]:
        """A line across the plot for each tick of the upright axis, with its text to the left."""
        left, right = self.across.start, self.across.end
        return [
            (
                el("line", x1=left, x2=right, y1=self.y(value), y2=self.y(value), class_="grid"),
                el("text", text, x=left - 7, y=self.y(value) + 3.5, text_anchor="end"),
            )
            for value, text in self.up.marks
        ]

    def columns(self, bottom: float) -> list[Content]:
        """A short line below the plot for each tick of the axis across, and the texts below them."""
        places = [self.x(value) for value, _ in self.across.marks]
        lines = [el("line", x1=x, x2=x, y1=bottom, y2=bottom + 4, class_="tick") for x in places]
        return [*lines, *self.across.labels_below(bottom + 16, self.width)]

    def axes(self, x_label: str, y_label: str = "") -> list[Content]:
        left, right, bottom = self.across.start, self.across.end, self.up.start
        drawn: list[Content] = [
            el("g", self.levels(), self.columns(bottom), class_="axis"),
            el("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="base"),
        ]
        if x_label:
            drawn.append(
                el("text", x_label, x=(left + right) / 2, y=bottom + 32, text_anchor="middle", class_="axis-label")
            )
        if y_label:
            middle = (self.up.end + bottom) / 2
            turned = f"rotate(-90 12 {middle:.1f})"
            drawn.append(
                el("text", y_label, x=12, y=middle, text_anchor="middle", transform=turned, class_="axis-label")
            )
        return drawn


def svg(
    told: str, *body: Content, size: tuple[float, float], kind: str, title: str = "", **more: str | float
) -> Markup:
    """A picture of (width, height). `told` says what it shows, to the pointer too where there is no `title`."""
    return el(
        "svg",
        el("title", title or told),
        body,
        viewBox=f"0 0 {size[0]:.0f} {size[1]:.0f}",
        **more,
        class_=kind,
        role="img",
        aria_label=told,
    )


def figure(title: str, legend: Content, picture: Content, *, kind: str = "curve", scrolls: bool = False) -> Markup:
    """A picture under its title and its legend. A wide one `scrolls` by itself."""
    shown = el("div", picture, class_="scroll", tabindex=0) if scrolls else picture
    return el("figure", el("figcaption", el("b", title), legend), shown, class_=kind)


def key(style: str, words: str, value: str = "", *, sign: str = "") -> Markup:
    """A key of a legend: a mark in a style of the page, words, and a value in bold."""
    bold = (" ", el("b", value)) if value else None
    return el("span", el("i", sign, class_=style), f" {words}", bold, class_="legend")


def line_through(points: Iterable[tuple[float, float]]) -> str:
    """The path through places of the picture."""
    return "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def text_width(text: str) -> float:
    """Pixels that a text of a chart takes, at most."""
    return CHARACTER * cells(text)


def room_beside(labels: Iterable[str]) -> float:
    """The start of an axis whose labels end 7 pixels to the left of it."""
    return max([LEFT, *(text_width(label) + 9 for label in labels)])


def bottom_labels(marks: Sequence[tuple[float, str]], y: float, width: float) -> list[Markup]:
    """The labels below an axis, (x, text) from left to right: every one, or every second, third, ..., so that they do
    not overlap; those at the edges of the picture are moved into it."""

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


def tick_marks(places: Sequence[float]) -> list[tuple[float, str]]:
    """Ticks with their texts."""
    return [(tick, tick_text(tick, places)) for tick in places]
