"""Counts of every evaluation: the number of samples, their losses, and the values of the recipe's own metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.metric import SHARE, Amount, Counts, Ints, Metric, Samples, Tally, UndefinedError, Value
from drivetrain.training.metric_states import rows
from drivetrain.training.metric_states.numbers import exact_sum
from drivetrain.training.metric_states.row_columns import Class, LossWeight, OwnValue
from drivetrain.training.metric_states.uncertainty.intervals import share
from drivetrain.training.task import Kind, Task


@dataclass(frozen=True)
class NumSamples:
    """How many samples there are; of each class, where there are classes."""

    num_classes: int = 0

    @property
    def size(self) -> int:
        return max(1, self.num_classes)

    def count(self, samples: Samples) -> Counts:
        return Counts(classes_of(samples, self.num_classes))


@dataclass(frozen=True)
class ValueSum:
    """The sum of one value a sample (`loss`, or one of the recipe's own), exact; of each class where there are some."""

    name: str
    amount: Amount
    num_classes: int = 0

    @property
    def size(self) -> int:
        return max(1, self.num_classes) * (2 if self.amount == "bool" else exact_sum.SIZE)

    def count(self, samples: Samples) -> Counts:
        values = samples.losses if self.name == "loss" else samples.values.get(self.name)
        if values is None or (values.dtype == np.bool_) != (self.amount == "bool"):
            given = "nothing" if values is None else "truths" if values.dtype == np.bool_ else "numbers"
            raise InputError(
                f"metric {self.name!r} of the recipe has {given} for one batch, and not for another. It must return "
                "the same kind of values for each."
            )
        classes = classes_of(samples, self.num_classes)
        if self.amount == "bool":
            return Counts(2 * classes + values.astype(np.int64))
        spread = exact_sum.spread(values.astype(np.float64, copy=False))
        return Counts(spread.cells + exact_sum.SIZE * classes[:, np.newaxis], spread.amounts)

    def settle(self, cells: Ints) -> None:
        if self.amount == "float":
            exact_sum.settle(cells.reshape(*cells.shape[:-1], -1, exact_sum.SIZE))

    def means(self, counted: Ints, samples: Ints) -> list[Value]:
        """The mean of each class (or the one of all), correctly rounded; NaN for those without samples."""
        sums = counted.reshape(len(samples), -1)
        if self.amount == "bool":
            return [
                Value(true / (false + true), limits=share(true, false + true), value_range=SHARE)
                if false + true
                else Value(math.nan)
                for false, true in sums.tolist()
            ]
        counts = samples.tolist()
        return [
            Value(exact_sum.mean(total, count) if count else math.nan, num_samples=count)
            for total, count in zip(sums, counts, strict=True)
        ]


@dataclass(frozen=True)
class WeightedLossSum:
    """The sum of what each sample weighs, or of that times its loss; exact. Where nothing is said, each weighs 1."""

    of_losses: bool

    @property
    def size(self) -> int:
        return exact_sum.SIZE

    def count(self, samples: Samples) -> Counts:
        losses, weights = samples.losses, samples.weights
        assert losses is not None
        if weights is None:
            return exact_sum.spread(losses if self.of_losses else np.ones(len(losses)))
        if not self.of_losses:
            return exact_sum.spread(weights)
        return exact_sum.spread(np.stack(exact_sum.products(losses, weights), axis=1))

    def settle(self, cells: Ints) -> None:
        exact_sum.settle(cells)


@dataclass(frozen=True)
class WeightedLoss:
    """The sum of the losses, each times what its sample weighs, over the sum of the weights, rounded once."""

    kinds: ClassVar[tuple[Kind, ...]] = get_args(Kind)
    higher_is_better: ClassVar[bool | None] = False

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"sum": WeightedLossSum(True), "weight": WeightedLossSum(False)}

    def rows(self, task: Task) -> Mapping[str, rows.Mean]:
        return {"": rows.Mean(OwnValue("loss", "float"), LossWeight())}

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        weight = exact_sum.numerator(counted["weight"])
        if not weight:
            raise UndefinedError("there is no sample that weighs anything")
        return {"": Value(exact_sum.numerator(counted["sum"]) / weight)}


@dataclass(frozen=True)
class Mean:
    """The mean of one value a sample; and of those of each class, `class_3`, that has samples."""

    name: str
    amount: Amount
    by_class: bool = False

    kinds: ClassVar[tuple[Kind, ...]] = get_args(Kind)
    higher_is_better: ClassVar[bool | None] = None

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        found: dict[str, Tally] = {"sum": ValueSum(self.name, self.amount), "samples": NumSamples()}
        if self.by_class:
            found["class_sum"] = ValueSum(self.name, self.amount, task.num_classes)
            found["class_samples"] = NumSamples(task.num_classes)
        return found

    def rows(self, task: Task) -> Mapping[str, rows.Form]:
        column = OwnValue(self.name, self.amount)

        def mean(of: tuple[rows.Is, ...]) -> rows.Form:
            return rows.Share((rows.Is(column),), of) if self.amount == "bool" else rows.Mean(column, of=of)

        classes = range(task.num_classes if self.by_class else 0)
        of_class = {place: rows.Is(Class(task.num_classes, predicted=False), place) for place in classes}
        return {"": mean(()), **{f"class_{place}": mean((one,)) for place, one in of_class.items()}}

    def coarser(self, task: Task, cells: int) -> Mean:
        """Without classes, where these take more cells: there may be thousands."""
        size = sum(tally.size for tally in self.tallies(task).values())
        return replace(self, by_class=False) if self.by_class and size > cells else self

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        (mean,) = ValueSum(self.name, self.amount).means(counted["sum"], counted["samples"])
        if math.isnan(mean.value):
            raise UndefinedError("there is no sample")
        values = {"": mean}
        if self.by_class:
            tally = ValueSum(self.name, self.amount, task.num_classes)
            means = tally.means(counted["class_sum"], counted["class_samples"])
            values |= {f"class_{number}": mean for number, mean in enumerate(means) if not math.isnan(mean.value)}
        return values


@dataclass(frozen=True)
class MeanGain(Mean):
    """One that is better when greater."""

    higher_is_better: ClassVar[bool | None] = True


@dataclass(frozen=True)
class MeanLoss(Mean):
    """One that is better when smaller."""

    higher_is_better: ClassVar[bool | None] = False


_MEANS: Mapping[bool | None, type[Mean]] = {None: Mean, True: MeanGain, False: MeanLoss}


def own_metrics(
    task: Task,
    amounts: Mapping[str, Amount],
    directions: Mapping[str, bool | None] | None = None,
    *,
    weighted: bool = False,
) -> dict[str, Metric]:
    """`loss` and the recipe's own metrics, these also by class where a sample is of one.

    Args:
        amounts: the recipe's own, and what their values are.
        directions: whether more of each is better (`recipe.direction`); None or missing: unknown.
        weighted: whether the recipe weighs its samples' losses.
    """
    by_class = task.kind in ("multiclass", "binary")
    known = directions or {}
    own = {name: _MEANS[known.get(name)](name, amount, by_class) for name, amount in amounts.items()}
    return {"loss": WeightedLoss() if weighted else MeanLoss("loss", "float"), **own}


def classes_of(samples: Samples, num_classes: int) -> Ints:
    """The class of each sample, shape [n]; zeros where there are no classes.

    Raises:
        InputError: a target that is no class.
    """
    if not num_classes:
        given = samples.losses if samples.losses is not None else samples.targets
        assert given is not None
        return np.zeros(len(given), dtype=np.int64)
    targets = samples.targets
    assert targets is not None
    if targets.size and not 0 <= targets.min() <= targets.max() < num_classes:
        wrong = targets[(targets < 0) | (targets >= num_classes)]
        raise InputError(
            f"a target is {wrong[0]} ({wrong.size} such in the batch), outside the {num_classes} classes (0 to "
            f"{num_classes - 1}). Correct the data or the recipe's num_classes."
        )
    return targets
