"""Exact sums of real values, several of them side by side in one tally."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from drivetrain.training.metric import Counts, Ints, UndefinedError
from drivetrain.training.metric_states.numbers import exact_sum
from drivetrain.training.metric_states.numbers.exact_sum import SIZE


def side_by_side(sums: Sequence[Counts], n: int) -> Counts:
    """Counts of exact sums of the same n samples, one after the other, and how many samples: SIZE * sums + 1 cells."""
    last = np.full((n, 1), SIZE * len(sums))
    cells = [counts.cells + SIZE * place for place, counts in enumerate(sums)]
    amounts = [counts.amounts for counts in sums if counts.amounts is not None]
    return Counts(np.concatenate([*cells, last], axis=1), np.concatenate([*amounts, np.ones_like(last)], axis=1))


def settle(cells: Ints) -> None:
    """Carry within each of the sums of `side_by_side`, in place; `cells` has shape [..., SIZE * sums + 1]."""
    exact_sum.settle(cells[..., :-1].reshape(*cells.shape[:-1], -1, SIZE))


def totals(counted: Ints) -> list[Fraction]:
    """Read the sums that `side_by_side` made."""
    return [exact_sum.total(cells) for cells in counted[:-1].reshape(-1, SIZE)]


def num_samples(counted: Ints) -> int:
    """How many samples `side_by_side` counted.

    Raises:
        UndefinedError: none.
    """
    if not counted[-1]:
        raise UndefinedError("there is no sample")
    return int(counted[-1])


def root(square: Fraction) -> float:
    """The square root, correctly rounded.

    Raises:
        ValueError: a negative number.
    """
    top, bottom = square.numerator, square.denominator
    # Scaled so that the whole part of the root has 64 bits or more; what is cut off is one bit that is not a tie.
    shift = max(0, 66 - (top.bit_length() - bottom.bit_length()) // 2)
    scaled, rest = divmod(top << (2 * shift), bottom)
    whole = math.isqrt(scaled)
    below = 2 * whole + bool(rest or whole * whole != scaled)
    return below / (1 << (shift + 1))
