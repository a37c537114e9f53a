"""Exact sums of float64 and of their squares: the same whatever the order and the pieces in which values come.

Each value is a whole number of 53 bits times a power of two. Those of one power are added up in three limbs of 18 bits,
so that a float64 holds the sum of a piece without rounding. The sums of all powers are joined as Python's whole
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from drivetrain.data.arrow import numpy

# Sums are counted in units of 2**-UNIT, squares in those of 2**-2UNIT: the last bit of the smallest float64 that
# frexp gives 53 bits.
UNIT = 1126
_LIMB = 18
_MASK = (1 << _LIMB) - 1
# A limb's square has 36 bits, so that 2**15 of the largest terms are added up without rounding.
_MOST_ROWS = 1 << 15
_MOST_VALUES = 1 << 17


def sums_and_squares(values: Any) -> tuple[list[int], list[int]]:
    """The sum, and that of the squares, of each column of finite float64 in the shape [rows, columns]."""
    np = numpy()
    rows, columns = values.shape
    if max(values.max(initial=0), -values.min(initial=0)) < math.sqrt(2.0**62 / max(rows, 1)):
        whole = values.astype("int64")
        if (whole == values).all():  # such as pixels
            sums, squares = (each.sum(axis=0).astype(object) for each in (whole, whole * whole))
            return (sums << UNIT).tolist(), (squares << 2 * UNIT).tolist()
    piece = max(1, min(_MOST_ROWS, _MOST_VALUES // max(columns, 1)))
    fractions, exponents = np.frexp(values)
    least = int(exponents.min(initial=0))
    span = int(exponents.max(initial=0)) - least + 1
    # (limbs of the sum, then of the squares) by column and power
    found = np.zeros((8, columns * span), "int64")
    exponents -= least
    if columns > 1:
        exponents += np.arange(0, columns * span, span, dtype=exponents.dtype)
    for start in range(0, rows, piece):
        whole = (fractions[start : start + piece] * 2.0**53).astype("int64").ravel()
        powers = exponents[start : start + piece].ravel().astype("intp")
        for number, terms in _terms(whole):
            found[number] += np.bincount(powers, terms, found.shape[1]).astype("int64")
    limbs = found.reshape(8, columns, span).astype(object)
    places = np.arange(least + UNIT - 53, least + UNIT - 53 + span).astype(object)
    sums, squares = (sum(limb << _LIMB * n for n, limb in enumerate(each)) for each in (limbs[:3], limbs[3:]))
    return (sums << places).sum(axis=1).tolist(), (squares << 2 * places).sum(axis=1).tolist()


def _terms(whole: Any) -> Any:
    """The limbs of whole numbers, the lowest first, and those of their squares; such as are zero are left out."""
    low, middle, high = (limb.astype("float64") for limb in (whole & _MASK, whole >> _LIMB & _MASK, whole >> 2 * _LIMB))
    yield from ((1, middle), (2, high), (5, middle * middle), (6, 2 * middle * high), (7, high * high))
    if low.any():
        yield from ((0, low), (3, low * low), (4, 2 * low * middle), (5, 2 * low * high))


def mean(total: int, count: int) -> float:
    """A sum divided by the number of its values, correctly rounded."""
    return total / (count << UNIT)


def deviation(total: int, squares: int, count: int) -> float:
    """The standard deviation of a population, from its exact sums."""
    variance = count * squares - total * total  # times count**2, in units of 2**-2UNIT
    extra = max(0, 64 - variance.bit_length() // 2)
    return math.isqrt(variance << 2 * extra) / (count << UNIT + extra)


def packed(totals: Sequence[int]) -> list[list[int]]:
    """Whole numbers for JSON, without the zeros at their ends."""
    places = [max(0, (total & -total).bit_length() - 1) for total in totals]
    return [[total >> place, place] for total, place in zip(totals, places, strict=True)]


def unpacked(state: Sequence[Sequence[int]]) -> list[int]:
    return [number << place for number, place in state]
