"""Values that are not finite: which sample has them, where it lies, and what may have caused them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Ints

EXTREME = (
    "values of the data there are extreme or empty, the model has numbers that are not finite or too large, or it has "
    "diverged in training (then lower learning_rate)"
)
"""Causes of outputs that are no numbers, the likeliest first: a model that was trained to its end seldom has
diverged."""

Locate = Callable[[int], str]
"""The place of a row for a message, as a reader says it."""


@dataclass(frozen=True)
class Where:
    """The samples of a batch, for messages."""

    rows: Ints | None
    locate: Locate | None

    def of(self, place: int) -> str:
        if self.rows is None:
            return f"sample {place} of the batch"
        row = int(self.rows[place])
        return self.locate(row) if self.locate else f"row {row}"


def check_finite(what: str, values: NDArray[Any], where: Where, advice: str) -> None:
    """
    Args:
        values: shape [samples, ...], floating point.
        advice: what may have made such a number, as a clause.

    Raises:
        InputError: one is not finite, with the place of the first such.
    """
    # A sum is finite where all are; the other way round it may overflow, and then each is looked at.
    if np.isfinite(values.sum()):
        return
    wrong = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
    if not wrong.size:
        return
    first = values[wrong[0]]
    shown = first if np.ndim(first) == 0 else first[~np.isfinite(first)].flat[0]
    more = f" ({wrong.size} such in the batch)" if wrong.size > 1 else ""
    raise InputError(f"the {what} of {where.of(wrong[0])} is {shown}{more}: {advice}.")
