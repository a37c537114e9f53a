"""exp, log, sin, cos and power as the float that is nearest to the exact value, and rounding of the exact value.

C libraries, numpy and Java differ in the last digit of these; here they are one value, whatever the engine and the
machine. One value at a time. Spark's workers get this module by value: it imports nothing of ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

# No float is within 1e-45 of the middle between two floats, unless exactly there (Lefèvre and Muller, 2001, for exp,
# log and sin); _exact_power finds those that are.
_EXACT = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_QUICK = Context(prec=26, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_LESS, _MORE = Decimal(1) - Decimal("1e-20"), Decimal(1) + Decimal("1e-20")
_BITS = 256
_HALF_PI: dict[int, int] = {}


def exp(x: float) -> float:
    if math.isnan(x) or math.isinf(x):
        return 0.0 if x < 0 else x
    if abs(x) > 750:
        return math.inf if x > 0 else 0.0
    return _settled(lambda digits: digits.exp(Decimal(x)))


def log(x: float) -> float:
    """-inf of zero, NaN below."""
    if math.isnan(x) or x <= 0 or math.isinf(x):
        return -math.inf if x == 0 else x if x > 0 else math.nan
    return _settled(lambda digits: digits.ln(Decimal(x)))


def sin(x: float) -> float:
    if math.isnan(x) or math.isinf(x):
        return math.nan
    return x if abs(x) < 2.0**-27 else _sine(x, 0)


def cos(x: float) -> float:
    if math.isnan(x) or math.isinf(x):
        return math.nan
    return 1.0 if abs(x) < 2.0**-27 else _sine(x, 1)


def power(base: float, exponent: float) -> float:
    """The special values are those of IEEE 754: 1 to any power and anything to the power of 0 are 1, also with NaN."""
    if exponent == 0 or base == 1:
        return 1.0
    is_odd = math.isfinite(exponent) and exponent % 2 == 1
    if math.isnan(base) or math.isnan(exponent):
        return math.nan
    if base == 0 and exponent < 0:
        return math.copysign(math.inf, base) if is_odd else math.inf
    if base == 0 or math.isinf(base) or math.isinf(exponent):
        return math.pow(base, exponent)
    if base < 0 and exponent != math.floor(exponent):
        return math.nan
    size = exponent * math.log2(abs(base))
    if abs(size) > 1100:
        found = math.inf if size > 0 else 0.0
    else:
        found = _exact_power(abs(base), exponent)
        if found is None:
            terms = Decimal(exponent), Decimal(abs(base))
            found = _settled(lambda digits: digits.exp(digits.multiply(terms[0], digits.ln(terms[1]))))
    return -found if base < 0 and is_odd else found


def rounded(x: float, digits: int) -> float:
    """Halves to the even digit; 0.575 is below the half, as a float."""
    return round(x, digits) if math.isfinite(x) else x


def _settled(calculate: Callable[[Context], Decimal]) -> float:
    """The float nearest to a number: by few digits, unless it is so close to the middle of two that more are needed."""
    found = calculate(_QUICK)
    low, high = float(_QUICK.multiply(found, _LESS)), float(_QUICK.multiply(found, _MORE))
    return low if low == high else float(calculate(_EXACT))


def _exact_power(base: float, exponent: float) -> float | None:
    """The exact power if it has few bits, so that it may lie between two floats; else None."""
    mantissa, scale = math.frexp(base)
    whole, scale = int(mantissa * 2**53), scale - 53
    trailing = (whole & -whole).bit_length() - 1
    whole, scale = whole >> trailing, scale + trailing
    count, roots = exponent.as_integer_ratio()
    while roots > 1:
        root = math.isqrt(whole)
        if root * root != whole or scale % 2:
            return None
        whole, scale, roots = root, scale // 2, roots // 2
    if whole > 1 and not 0 < count * whole.bit_length() <= 64:
        return None
    shift = scale * count
    try:
        made = whole**count if whole > 1 else 1
        return float(made << shift) if shift >= 0 else made / (1 << -shift)
    except OverflowError:
        return math.inf


def _half_pi(bits: int) -> int:
    """pi / 2 with so many bits behind the point, by Machin's formula."""
    if bits not in _HALF_PI:
        _HALF_PI[bits] = (8 * _inverse_tangent(5, bits + 16) - 2 * _inverse_tangent(239, bits + 16)) >> 16
    return _HALF_PI[bits]


def _inverse_tangent(inverse: int, bits: int) -> int:
    """atan(1 / inverse)."""
    term = (1 << bits) // inverse
    found, place = term, 1
    while term:
        term //= -inverse * inverse
        place += 2
        found += term // place
    return found


def _sine(x: float, quarters: int) -> float:
    """sin(x + quarters * pi / 2) of a finite x that is not tiny."""
    numerator, denominator = x.as_integer_ratio()
    bits = _BITS if abs(x) < 2.0**64 else _BITS + 1100
    bits += 64
    half_pi = _half_pi(bits)
    turned, rest = divmod((numerator << bits) // denominator, half_pi)
    if 2 * rest > half_pi:
        turned, rest = turned + 1, rest - half_pi
    quadrant, rest = (turned + quarters) % 4, rest >> (bits - _BITS)
    square = (rest * rest) >> _BITS
    term, place = (rest, 1) if quadrant % 2 == 0 else (1 << _BITS, 0)
    found = 0
    while term:
        found += term
        term = -((term * square) >> _BITS) // ((place + 1) * (place + 2))
        place += 2
        if term == -1:  # (division rounds down)
            break
    return (found if quadrant < 2 else -found) / (1 << _BITS)
