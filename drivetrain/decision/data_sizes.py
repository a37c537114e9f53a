"""Sizes of a change, as users write them: `+5 points`, `x2`, `10 %`, `3`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from drivetrain.base.errors import InputError

ALLOWED = "Allowed: '+5 points' (of a share in percent), 'x2', '10 %' (of the expected value), 3 (in its own unit)"
_NUMBER = r"(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)"
_TIMES = re.compile(rf"x *{_NUMBER}")
_OTHERS = re.compile(rf"([+-]?) *{_NUMBER} *(points?|%|)")


@dataclass(frozen=True, kw_only=True)
class Size:
    """How far a value must lie from the expected one."""

    text: str
    unit: Literal["own", "percent", "times"]
    amount: float
    """Above 0. Points are hundredths in the share's own unit."""
    side: Literal[-1, 0, 1] = 0
    """1 above the expected value, -1 below, 0 on either side."""

    def reached(self, expected: float, value: float) -> bool:
        """False where either is NaN."""
        if math.isnan(expected) or math.isnan(value):
            return False
        if self.unit == "times":
            times = value >= self.amount * expected if self.amount > 1 else value <= self.amount * expected
            return times and value != expected
        moved = value - expected
        least = self.amount * (abs(expected) / 100 if self.unit == "percent" else 1.0)
        # A twelfth digit is rounding: 0.07 - 0.02 is less than 0.05.
        return (moved * self.side if self.side else abs(moved)) >= least * (1 - 1e-12) and moved != 0


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The changes from which a statistic of a column warns, and fails."""

    warn: Size | None = None
    fail: Size | None = None

    def fails(self, expected: float, value: float) -> bool:
        return self.fail is not None and self.fail.reached(expected, value)

    def warns(self, expected: float, value: float) -> bool:
        """True where it fails, too."""
        return self.fails(expected, value) or (self.warn is not None and self.warn.reached(expected, value))


def size(written: object, where: str) -> Size:
    """Read a size.

    Args:
        where: for messages, as `columns: age: nulls: fail`.

    Raises:
        InputError: it is none.
    """
    text = f"{written:g}" if isinstance(written, int | float) and not isinstance(written, bool) else str(written)
    plain = text.strip().lower()
    if found := _TIMES.fullmatch(plain):
        unit, sign, amount = "times", "", float(found[1])
    elif found := _OTHERS.fullmatch(plain):
        sign, amount = found[1], float(found[2])
        unit = "percent" if found[3] == "%" else "own"
        amount /= 100 if found[3].startswith("point") else 1
    else:
        raise InputError(f"{where}: {text!r} is not a size. {ALLOWED}; with + or - in front for one side only.")
    if not 0 < amount < math.inf or (unit == "times" and amount == 1):
        raise InputError(f"{where}: {text!r} is no change. Give a number above 0, or x and a number that is not 1.")
    return Size(text=text.strip(), unit=unit, amount=amount, side=1 if sign == "+" else -1 if sign == "-" else 0)
