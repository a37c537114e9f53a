"""Numbers that are known to lie between two others, in whole numbers alone: the digits are the same on any machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import inf, nextafter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.metric import Ints, Value

LIMB = 31
"""Bits of a quotient that one division of int64 gives when the divisor is below 2**31."""
LIMBS = 3
UNIT = 1 << (LIMB * LIMBS)
"""Enclosures are counted in steps of 1 / UNIT: 2**-93, far below what a float64 near 1 can show."""
# Rows at a time, so that what is computed on the way stays in the processor's cache.
_ROWS = 1 << 14


class Enclosure(NamedTuple):
    """A number between `low` / UNIT and `high` / UNIT, both included."""

    low: int
    high: int

    @classmethod
    def of(cls, low: Fraction, high: Fraction) -> Enclosure:
        """The smallest enclosure of all numbers from `low` to `high`."""
        return cls(low.numerator * UNIT // low.denominator, -(-high.numerator * UNIT // high.denominator))

    def value(self, advice: str = "", wide: float = inf) -> Value:
        """The middle as a float64 and a bound that holds for it, roundings included.

        The bound is 0 where both ends round to one float64: the true number, correctly rounded. `advice` goes with a
        bound above `wide`.
        """
        low, high = self.low / UNIT, self.high / UNIT  # (Python divides whole numbers with one correct rounding.)
        if low == high:
            return Value(low)
        middle = (self.low + self.high) / (2 * UNIT)
        exact = max(Fraction(self.high, UNIT) - Fraction(middle), Fraction(middle) - Fraction(self.low, UNIT))
        bound = float(exact)
        if Fraction(bound) < exact:
            bound = nextafter(bound, inf)
        return Value(middle, bound, advice if bound > wide else "")


def mean(enclosures: Sequence[Enclosure], weights: Sequence[int] | None = None) -> Enclosure:
    """The mean, weighted by whole numbers that are not all 0."""
    weighted = list(zip(enclosures, weights or [1] * len(enclosures), strict=True))
    total = sum(weight for _, weight in weighted)
    low = sum(weight * one.low for one, weight in weighted)
    high = sum(weight * one.high for one, weight in weighted)
    return Enclosure(low // total, -(-high // total))


def fitting(arrays: Iterable[Ints], total: int) -> list[NDArray[Any]]:
    """The arrays of counts in a type in which products of two numbers up to `total` are exact.

    That is int64 below 2**31, and Python's own whole numbers, which are slow and know no end, from there on.
    """
    return [array if total < 1 << LIMB else array.astype(object) for array in arrays]


def dot(first: Ints, second: Ints) -> int:
    """The exact sum of first * second, of arrays of shape [n] without negative numbers."""
    if not len(first):
        return 0
    if int(first.sum()) * int(second.max()) < 1 << 63:
        return int(np.dot(first, second))
    return int(np.dot(first.astype(object), second.astype(object)))


def sum_of_ratios(numerators: NDArray[Any], denominators: NDArray[Any]) -> Enclosure:
    """The sum of numerators / denominators, of shape [n], each rounded down to a step: a sum of whole numbers.

    It does not depend on the order or on how the ratios are dealt to ranks. Numbers as of `fitting`: numerators from 0
    below 2**62, denominators from 1 below 2**31, or both of dtype object.
    """
    low, inexact = 0, 0
    for start in range(0, len(numerators), _ROWS):
        rows = slice(start, start + _ROWS)
        divisor = denominators[rows]
        quotient = numerators[rows] // divisor
        rest = numerators[rows] - quotient * divisor
        block = int(quotient.sum())
        for _ in range(LIMBS):  # long division, a limb at a time
            rest = rest * (1 << LIMB)
            quotient = rest // divisor
            rest = rest - quotient * divisor
            block = (block << LIMB) + int(quotient.sum())
        low += block
        inexact += int(np.count_nonzero(rest))
    return Enclosure(low, low + inexact)
