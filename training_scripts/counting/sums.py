"""Exact sums of real values, several of them side by side in one tally."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from drivetrain.training_scripts.counting import checks, exact_sum
from drivetrain.training_scripts.counting.exact_sum import SIZE
from drivetrain.training_scripts.metric import Counts, Ints, Samples, UndefinedError


@dataclass(frozen=True)
class LossSum:
    """The sum of the losses, and (last cell) how many."""

    @property
    def size(self) -> int:
        return SIZE + 1

    def count(self, samples: Samples) -> Counts:
        losses = checks.losses(samples)
        return side_by_side([exact_sum.spread(losses)], len(losses))

    def mean(self, counted: Ints) -> float:
        """
        Raises:
            UndefinedError: nothing was counted.
        """
        return exact_sum.mean(counted[:-1], num_samples(counted))


def side_by_side(sums: Sequence[Counts], n: int) -> Counts:
    """Counts of exact sums of the same n samples, one after the other, and how many samples: SIZE * sums + 1 cells."""
    last = np.full((n, 1), SIZE * len(sums))
    cells = [counts.cells + SIZE * place for place, counts in enumerate(sums)]
    amounts = [counts.amounts for counts in sums if counts.amounts is not None]
    return Counts(np.concatenate([*cells, last], axis=1), np.concatenate([*amounts, np.ones_like(last)], axis=1))


def totals(counted: Ints) -> list[Fraction]:
    """What `side_by_side` summed up."""
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
