"""Pictures as files of their own: a square frame with axes, and colours that are told apart on light and dark paper."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.markup import Markup, el

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
