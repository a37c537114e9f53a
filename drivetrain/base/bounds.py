"""Bounds of allowed numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard


class Bounds(NamedTuple):
    """The numbers that are allowed: finite, from `least` to `most` (both included), above `above`, below `below`.

    epochs: Annotated[int, Bounds(1)] = 12
    decay: Annotated[float, Bounds(0, below=1)] = 0.9
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def hold(self, value: float) -> bool:
        """Return True if `value` is allowed."""
        return (
            (isinstance(value, int) or math.isfinite(value))  # a whole number may be more than a float holds
            and (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def described(self, kind: type = float) -> str:
        """`numbers from 0 to below 1`; of `kind` int they are whole numbers."""
        lower = f"from {_plain(self.least)}" if self.least is not None else ""
        lower = f"above {_plain(self.above)}" if self.above is not None else lower
        upper = f"to {_plain(self.most)}" if self.most is not None else ""
        if self.below is not None:
            upper = f"{'to ' if self.least is not None else 'and ' if lower else ''}below {_plain(self.below)}"
        return " ".join(filter(None, ("whole numbers" if kind is int else "numbers", lower, upper)))


def _plain(limit: float) -> str:
    return str(limit) if isinstance(limit, int) else f"{limit:f}".rstrip("0").rstrip(".")


ANY_NUMBER = Bounds()


def refused(value: Any, choices: Sequence[str], bounds: Bounds, kind: type) -> str:
    """The allowed values, for a value of the right type that is none of the choices or out of bounds; else ""."""
    if choices and value not in choices:
        return ", ".join(choices)
    return "" if bounds == ANY_NUMBER or bounds.hold(value) else bounds.described(kind)


def is_number(value: Any) -> TypeGuard[float]:
    """True for a finite number that a double can hold."""
    try:
        return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an int beyond a double
        return False
