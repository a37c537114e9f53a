"""Bounds of allowed numbers, and the type of a value that JSON gave."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeGuard, cast

LARGEST_INT = 2**63 - 1  # torch keeps sizes in 64 bits


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


def is_number(value: Any) -> TypeGuard[float]:
    """True for a finite number that a double can hold."""
    try:
        return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an int beyond a double
        return False


def wrong_type(value: Any, annotation: str) -> str | None:
    """The values that an option may have, in words, for one of another type; only plain annotations are held against
    them."""
    match annotation:
        case "int":
            return None if _is_int(value) else "a whole number (of 64 bits)"
        case "float":
            finite = isinstance(value, float) and math.isfinite(value)
            return None if finite or _is_int(value) else "a number (finite)"
        case "str":
            return None if isinstance(value, str) else "a text"
        case "bool":
            return None if isinstance(value, bool) else "true or false"
        case "tuple[str, ...]":
            return None if _is_texts(value) else 'a list of texts, such as ["4", "8"]'
        case _:
            return None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_INT


def _is_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in cast("list[Any]", value))
