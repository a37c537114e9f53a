"""The common part of precision, recall, F1, specificity, Dice and IoU: a quotient a class, and its averages."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name
from drivetrain.training.metric import SHARE, Floats, Ints, Range, Tally, UndefinedError, Value
from drivetrain.training.metric_states.outcomes import ClassTable, Outcomes
from drivetrain.training.metric_states.row_columns import Right, target_and_prediction
from drivetrain.training.metric_states.rows import Average, Form, Is, Share
from drivetrain.training.metric_states.uncertainty.intervals import Limits, mean_of, share, with_absent
from drivetrain.training.task import Kind, Task

AVERAGES = ("macro", "micro", "weighted")


class Quotients(NamedTuple):
    """Numerators and denominators by class, int64 [C] each."""

    tops: Ints
    bottoms: Ints
    failed: Ints
    """Classes for which 0 / 0 is the model's failure: the value of such a class is 0. Elsewhere it has none."""


@dataclass(frozen=True)
class ByClass(ABC):
    """A metric that is a quotient a class.

    Results are `macro` (the mean over classes), `micro` (all classes counted together) and `weighted` (the mean,
    weighted by the targets of each class). A binary task has one result, that of class 1, unless an average is asked
    for. As in scikit-learn, macro takes the classes that occur, be it among targets or predictions (multilabel: all
    labels), and 0 / 0 counts as 0 in an average (`zero_division=0`).
    """

    average: str = "all"
    """`macro`, `micro` or `weighted` for that one alone, `none` for each class and no average, `all` for the three."""
    per_class: bool = False
    """Each class as well, `class_0`, `class_1`, ...; a quotient of 0 / 0 by no fault of the model is no value."""

    kinds: ClassVar[tuple[Kind, ...]] = ("multiclass", "binary", "multilabel", "segmentation")
    higher_is_better: ClassVar[bool | None] = True
    value_range: ClassVar[Range] = SHARE
    shared_by: ClassVar[int] = 1
    """In how many classes' quotients a wrong sample counts: as one missed, as one claimed in vain, or both."""
    micro_is_accuracy: ClassVar[bool] = True
    """True if the micro average is the accuracy, for samples of one class each."""

    def __post_init__(self) -> None:
        if self.average not in (allowed := ("all", "none", *AVERAGES)):
            raise unknown_name("average", self.average, allowed)

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"outcomes": _outcomes(task)}

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        table = _outcomes(task).table(counted["outcomes"])
        quotients = self.quotients(table)
        kept = self._kept(task, table)
        if not kept.any():
            raise UndefinedError("no sample that counts is of any class, or predicted to be")
        shares = quotients.tops / np.maximum(quotients.bottoms, 1)
        values = {
            average: Value(
                _mean(average, shares, quotients, table, kept),
                limits=self._of_average(average, task, shares, quotients, table, kept),
            )
            for average in self._averages(task)
        }
        one = partial(self._of_class, task, shares, quotients)
        if task.kind == "binary" and self.average != "none":
            values = {"": one(1), **values}
        if self.per_class or self.average == "none":
            values |= {f"class_{place}": one(place) for place in range(task.num_classes)}
        if all(math.isnan(value.value) for value in values.values()):
            raise UndefinedError(next(iter(values.values())).advice)
        return values

    def rows(self, task: Task) -> Mapping[str, Form]:
        if task.kind == "segmentation":  # whose pixels are counted
            return {}
        places = range(task.num_classes)
        both = [target_and_prediction(task, place) for place in places]
        each = [self.share(*one) for one in both]
        found: dict[str, Form] = {}
        if task.kind == "binary" and self.average != "none":
            found[""] = each[1]
        for average in self._averages(task):
            if average == "micro":
                if task.kind != "multilabel" and self.micro_is_accuracy:
                    found[average] = Share((Is(Right(task.kind, task.num_classes)),))
                continue
            by_size = average == "weighted"
            always = task.kind == "multilabel" and not by_size
            there = tuple((target,) if by_size else () if always else (target, claimed) for target, claimed in both)
            found[average] = Average(tuple(each), there, by_size)
        if self.per_class or self.average == "none":
            found |= {f"class_{place}": each[place] for place in places}
        return found

    @abstractmethod
    def share(self, target: Is, claimed: Is) -> Share:
        """A class's quotient, of samples that are of the class and of those that are predicted to be."""

    @abstractmethod
    def quotients(self, table: ClassTable) -> Quotients:
        """The quotient of each class."""

    def reason(self, place: int) -> str:
        """Why a class has no value, as a clause."""
        return f"no sample is of class {place}, or predicted to be"

    def limits(self, top: float, bottom: float) -> Callable[[float], Limits]:
        """The interval of a class's quotient: a share of `bottom` independent samples, unless a metric says else."""
        return share(top, bottom)

    def _of_class(self, task: Task, shares: Floats, quotients: Quotients, place: int) -> Value:
        if quotients.bottoms[place] or quotients.failed[place]:
            return Value(float(shares[place]), limits=self._limits(task, quotients, place))
        return Value(math.nan, advice=self.reason(place))

    def _limits(self, task: Task, quotients: Quotients, place: int) -> Callable[[float], Limits] | None:
        """None for regions: the pixels of one picture are not independent."""
        if task.kind == "segmentation":
            return None
        # Computed on demand: the hundreds of replicates do not need it.
        return lambda confidence: self.limits(int(quotients.tops[place]), int(quotients.bottoms[place]))(confidence)

    def _of_average(
        self, average: str, task: Task, shares: Floats, quotients: Quotients, table: ClassTable, kept: np.ndarray
    ) -> Callable[[float], Limits] | None:
        if task.kind == "segmentation":
            return None
        if average == "micro":
            top, bottom = int(quotients.tops[kept].sum()), int(quotients.bottoms[kept].sum())
            right, n = int(table.found.sum()), table.num_samples
            if task.kind == "multilabel":
                # Labels of one sample vary together, as they like: all that are counted may lie in a few samples.
                return self.limits(top / task.num_classes, bottom / task.num_classes) if bottom else None
            # All classes counted together it is the accuracy, where a sample is of one class.
            return share(right, n) if top * n == right * bottom else None
        weights = kept.astype(float) if average == "macro" else table.actual * kept
        if not (total := float(weights.sum())):
            return None

        def limits(confidence: float) -> Limits:
            places = np.flatnonzero(weights)
            each = [self.limits(int(quotients.tops[place]), int(quotients.bottoms[place])) for place in places]
            # Labels of one sample vary together, as they like; of a class that is never predicted nothing is known.
            together = task.kind == "multilabel" or not quotients.bottoms[places].all()
            stretch = math.inf if together else math.sqrt(self.shared_by)
            found = mean_of(shares[places].tolist(), each, (weights[places] / total).tolist(), stretch=stretch)
            if average == "macro":
                mean = math.fsum(shares[places]) / len(places)
                found = with_absent(mean, found, len(places), task.num_classes)
            return found(confidence)

        return limits

    def _averages(self, task: Task) -> tuple[str, ...]:
        if self.average == "none" or (self.average == "all" and task.kind == "binary"):
            return ()
        return AVERAGES if self.average == "all" else (self.average,)

    def _kept(self, task: Task, table: ClassTable) -> np.ndarray:
        """Mask of the classes that an average takes, bool [C]."""
        if task.kind == "multilabel":
            return np.ones(len(table.found), bool)
        return (table.actual + table.claimed) > 0


@dataclass(frozen=True)
class ByRegion(ByClass):
    """A metric of regions; one of them may be the background."""

    background: int = -1
    """A class that averages leave out, -1 for none. Its pixels still count against the other classes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.background < -1:
            raise InputError(f"background={self.background}; allowed is the number of a class, or -1 for none.")

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        if self.background >= task.num_classes:
            raise InputError(
                f"background={self.background}; allowed is the number of a class, 0 to {task.num_classes - 1}, or -1 "
                "for none."
            )
        return super().tallies(task)

    def _kept(self, task: Task, table: ClassTable) -> np.ndarray:
        kept = super()._kept(task, table)
        if self.background >= 0:
            kept[self.background] = False
        return kept


def _mean(average: str, shares: Floats, quotients: Quotients, table: ClassTable, kept: np.ndarray) -> float:
    """An average over the classes that are kept, 0 where it would be 0 / 0."""
    if average == "macro":
        return math.fsum(shares[kept]) / int(kept.sum())
    if average == "micro":
        top, bottom = float(quotients.tops[kept].sum()), int(quotients.bottoms[kept].sum())
    else:
        top, bottom = math.fsum((shares * table.actual)[kept]), int(table.actual[kept].sum())
    return top / bottom if bottom else 0.0


def twice_the_share(top: float, bottom: float) -> Callable[[float], Limits]:
    """Limits of 2 TP / (2 TP + FP + FN), which grows with the share TP / (TP + FP + FN) of independent samples."""
    of_all = share(top / 2, bottom - top / 2)

    def limits(confidence: float) -> Limits:
        low, high = of_all(confidence)
        return 2 * low / (1 + low), 2 * high / (1 + high)

    return limits


def _outcomes(task: Task) -> Outcomes:
    return Outcomes(task.kind, task.num_classes)
