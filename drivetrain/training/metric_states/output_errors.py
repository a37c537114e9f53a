"""How far the outputs of a regression lie from their targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from drivetrain.training.metric import Counts, Floats, Ints, Samples
from drivetrain.training.metric_states import checks
from drivetrain.training.metric_states.numbers import exact_sum, sums
from drivetrain.training.metric_states.numbers.exact_sum import SIZE
from drivetrain.training.metric_states.numbers.sums import side_by_side

OutputError = Literal["absolute", "squared", "relative", "pinball"]


@dataclass(frozen=True)
class OutputErrors:
    """For each output, the exact sum of an error over samples, and (last cell) the number of samples.

    absolute  |target - output|
    squared   (target - output)^2, to a hundred bits a sample, where it is above 1e-290: the difference of numbers that
              are close to each other loses nothing
    relative  |target - output| / max(|target|, 2^-52)
    pinball   quantile * (target - output) where that is positive, else (1 - quantile) * (output - target)
    """

    num_outputs: int
    error: OutputError
    quantile: float = 0.5
    """The quantile of the pinball loss."""

    @property
    def size(self) -> int:
        return SIZE * self.num_outputs + 1

    def errors(self, samples: Samples) -> Floats:
        """Shape [n, outputs], rounded."""
        targets, predicted = checks.outputs(samples, self.num_outputs)
        differences = targets - predicted
        if self.error == "squared":
            return differences**2
        if self.error == "pinball":
            return differences * np.where(differences >= 0, self.quantile, self.quantile - 1)
        if self.error == "relative":
            return np.abs(differences) / np.maximum(np.abs(targets), np.finfo(np.float64).eps)
        return np.abs(differences)

    def count(self, samples: Samples) -> Counts:
        terms: Sequence[Floats]
        if self.error == "squared":
            targets, predicted = checks.outputs(samples, self.num_outputs)
            differences = targets - predicted
            # What the rounded difference leaves (Knuth, TAOCP 2, 4.2.2): target - output = difference + rest.
            back = differences - targets
            rests = (targets - (differences - back)) - (predicted + back)
            terms = [*exact_sum.products(differences, differences), 2 * differences * rests]
        else:
            terms = [self.errors(samples)]
        stacked = np.stack(terms, axis=2)
        return side_by_side([exact_sum.spread(stacked[:, place]) for place in range(self.num_outputs)], len(stacked))

    def settle(self, cells: Ints) -> None:
        sums.settle(cells)


@dataclass(frozen=True)
class OutputTargets:
    """For each output, the exact sums of the targets and of their squares, and the number of samples.

    (Squares below 1e-290 lose digits, or all of them.)
    """

    num_outputs: int

    @property
    def size(self) -> int:
        return 2 * SIZE * self.num_outputs + 1

    def count(self, samples: Samples) -> Counts:
        targets, _ = checks.outputs(samples, self.num_outputs)
        high, low = exact_sum.products(targets, targets)
        outputs = range(self.num_outputs)
        plain = [exact_sum.spread(targets[:, place]) for place in outputs]
        squares = [exact_sum.spread(np.stack([high[:, place], low[:, place]], axis=1)) for place in outputs]
        return side_by_side([*plain, *squares], len(targets))

    def settle(self, cells: Ints) -> None:
        sums.settle(cells)
