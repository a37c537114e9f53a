"""Exact sums of float64, made of whole numbers: the same whatever the order, the batches and the number of ranks.

A sum is one huge fixed-point number whose last bit is the smallest float64 (2**-1074). It is kept in limbs of 32 bits,
each in an int64, so that limbs are added up without carrying: adding sums is adding vectors, which is what an
all_reduce does. (U. Kulisch and W. Miranker, "The Arithmetic of the Digital Computer: A New Approach", SIAM Review 28,
1986; limbs with room for carries: R. Neal, "Fast Exact Summation Using Small and Large Superaccumulators", 2015.)
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Counts, Floats, Ints

LIMB_BITS = 32
POINT = 1074
"""Bits behind the binary point: the smallest float64 is 2**-1074."""
SIZE = 68
"""Limbs of a sum: 2,098 bits for any finite float64, and 78 for the sum of very many of them and its sign."""

_MASK = np.uint64(2**LIMB_BITS - 1)
_SPLITTER = 2.0**27 + 1
# (2**512)**2 is beyond the largest float64, and half of a number may be rounded up.
_LARGEST_FACTOR = 2.0**511


def spread(values: ArrayLike) -> Counts:
    """Split each value exactly into what it adds to each limb.

    Args:
        values: float64 of shape [n], or [n, m] where m values of a sample add up to one sum.

    Returns:
        Cells in [0, SIZE) and amounts below 2**32 in magnitude, of shape [n, 3] or [n, 3 * m].

    Raises:
        InputError: a value that is not finite.
    """
    numbers = np.ascontiguousarray(values, dtype=np.float64)
    bits = numbers.view(np.uint64)
    exponents = (bits >> np.uint64(52)).astype(np.int64)
    exponents &= 0x7FF
    if exponents.size and exponents.max() == 0x7FF:
        _refuse_not_finite(numbers)
    mantissas = bits & np.uint64(2**52 - 1)
    mantissas |= (exponents > 0).astype(np.uint64) << np.uint64(52)  # all but the subnormal ones begin with a 1
    places = exponents - (exponents > 0)  # of the mantissa's last bit
    shifts = (places & (LIMB_BITS - 1)).astype(np.uint64)
    low = (mantissas & _MASK) << shifts
    high = ((mantissas >> np.uint64(LIMB_BITS)) << shifts) + (low >> np.uint64(LIMB_BITS))

    amounts = np.empty((*numbers.shape, 3), dtype=np.int64)
    amounts[..., 0] = low & _MASK
    amounts[..., 1] = high & _MASK
    amounts[..., 2] = high >> np.uint64(LIMB_BITS)
    negative = np.signbit(numbers)
    if negative.any():
        np.negative(amounts, out=amounts, where=negative[..., np.newaxis])
    cells = (places >> 5)[..., np.newaxis] + np.arange(3)
    shape = (len(numbers), 3 * (numbers.shape[1] if numbers.ndim == 2 else 1))
    return Counts(cells.reshape(shape), amounts.reshape(shape))


def settle(cells: Ints) -> None:
    """Carry, in place, what is beyond 32 bits of a limb into the next: the sums stay what they are.

    Afterwards all limbs but the last are in [0, 2**32), and another 2**30 values have room.

    Args:
        cells: int64, shape [..., SIZE], with magnitudes of at most 2**63 - 2**31.
    """
    for limb in range(cells.shape[-1] - 1):
        carry = cells[..., limb] >> LIMB_BITS  # rounds down, so that what stays is not negative
        cells[..., limb] &= 2**LIMB_BITS - 1
        cells[..., limb + 1] += carry


def numerator(cells: Ints) -> int:
    """The sum in units of 2**-1074; `cells` has shape [SIZE]."""
    used = np.flatnonzero(cells)
    return sum(amount << (LIMB_BITS * limb) for limb, amount in zip(used.tolist(), cells[used].tolist(), strict=True))


def total(cells: Ints) -> Fraction:
    """The exact sum; `cells` has shape [SIZE]."""
    return Fraction(numerator(cells), 2**POINT)


def mean(cells: Ints, count: int) -> float:
    """The sum divided by `count` (above 0), correctly rounded; `cells` has shape [SIZE]."""
    return numerator(cells) / (count << POINT)  # Python rounds a quotient of whole numbers correctly


def products(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    """Two float64 arrays whose sum is exactly a * b (T. Dekker, "A Floating-Point Technique for Extending the Available
    Precision", 1971): `spread(np.stack(products(a, a), axis=1))` is an exact square.

    Exact where the product is 0 or at least 2**-968 (3e-292) in magnitude. Of smaller ones, the bits below the smallest
    float64 are lost, which is an error of at most a few times 2**-1074.

    Raises:
        InputError: a factor that is not finite, or so large that its square is.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    for factors in (first, second):
        largest = np.abs(factors).max(initial=0.0)
        if not largest < _LARGEST_FACTOR:
            if not np.isfinite(largest):
                _refuse_not_finite(factors)
            raise InputError(
                f"the square of a value, {factors.flat[np.abs(factors).argmax()]!r}, is too large for a number of 64 "
                f"bits; allowed are magnitudes below {_LARGEST_FACTOR:.2g}. Scale the values."
            )
    rounded = first * second
    first_high, first_low = _halves(first)
    second_high, second_low = _halves(second)
    error = first_high * second_high
    error -= rounded
    error += first_high * second_low
    error += first_low * second_high
    error += first_low * second_low
    return rounded, error


def _halves(values: Floats) -> tuple[Floats, Floats]:
    """Two halves of 26 bits each, whose products are exact (Veltkamp)."""
    scaled = values * _SPLITTER
    high = scaled - (scaled - values)
    return high, values - high


def _refuse_not_finite(values: NDArray[np.float64]) -> None:
    wrong = ~np.isfinite(values)
    first = values[wrong].flat[0]
    places = np.flatnonzero(wrong.reshape(len(values), -1).any(axis=1)) if values.ndim else [0]
    raise InputError(
        f"value {first} of sample {places[0]} ({len(places)} such of {values.shape[0] if values.ndim else 1}); only "
        "finite numbers can be added up."
    )
