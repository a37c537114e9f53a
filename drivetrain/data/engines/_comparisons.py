"""Comparisons without a loss, of columns of either engine: an integer beside floats is compared by the float that it
becomes, and by what it is more than that."""

# A lambda of the table below has no place for the types of its arguments.
# pyright: basic

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NamedTuple

Column = Any


class Compared(NamedTuple):
    """A value, the same in the type in which values are compared, and what an integer is more than that."""

    value: Column
    made: Column
    rest: Column = None


def comparisons(
    *,
    when: Callable[[Column, Column], Column],
    is_given: Callable[[Column], Column],
    holds: Callable[[Column], Column],
    zero: Callable[[], Column],
) -> Mapping[str, Callable[..., Column]]:
    """Each operation by its name, of `Compared`; what is left of null_if is the value itself.

    Args:
        when: the value where a condition holds, else null.
        is_given: true where a column is not null.
        holds: a condition, false where it is null.
        zero: an int64.
    """

    def rest(one: Compared) -> Column:
        return when(is_given(one.value), zero()) if one.rest is None else one.rest

    def equal(a: Compared, b: Compared) -> Column:
        same = a.made == b.made
        return same if a.rest is b.rest is None else same & (rest(a) == rest(b))

    def less(a: Compared, b: Compared) -> Column:
        """Rounding to a float keeps the order, but for ties."""
        made = a.made < b.made
        return made if a.rest is b.rest is None else made | ((a.made == b.made) & (rest(a) < rest(b)))

    def between(a: Compared, low: Compared, high: Compared) -> Column:
        return when(is_given(low.value) & is_given(high.value), ~less(a, low) & ~less(high, a))

    return {
        "equal": equal,
        "not_equal": lambda a, b: ~equal(a, b),
        "less": less,
        "less_equal": lambda a, b: ~less(b, a),
        "greater": lambda a, b: less(b, a),
        "greater_equal": lambda a, b: ~less(a, b),
        "between": between,
        "is_in": lambda a, *values: reduce(lambda one, other: one | other, [equal(a, value) for value in values]),
        "null_if": lambda a, b: when(~holds(equal(a, b)), a.value),
    }
