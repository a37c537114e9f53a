"""A curve without axes, as small as a word, for lists."""

from __future__ import annotations

import math
from collections.abc import Sequence

from drivetrain.base.formatting import number
from drivetrain.base.markup import Markup, el
from drivetrain.telling.charts.frame import svg

WIDTH, HEIGHT, EDGE = 96, 24, 3


def sparkline(name: str, values: Sequence[float]) -> Markup | None:
    """The curve through values at equal distances, with a dot at its end; None of less than two finite ones."""
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2:
        return None
    low, high = min(finite), max(finite)
    reach = (high - low) or 1.0
    points = [
        (
            EDGE + place * (WIDTH - 2 * EDGE) / (len(finite) - 1),
            HEIGHT - EDGE - (value - low) / reach * (HEIGHT - 2 * EDGE),
        )
        for place, value in enumerate(finite)
    ]
    told = f"{name}: from {number(finite[0])} to {number(finite[-1])}"
    path = el("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points))
    end = el("circle", cx=points[-1][0], cy=points[-1][1], r=2.2)
    return svg(told, path, end, size=(WIDTH, HEIGHT), kind="spark")
