"""The rates at which the samples of a binary task are taken for class 1: of all, of class 1 and of class 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from typing import ClassVar

from drivetrain.training.metric import SHARE, Ints, Range, Tally, UndefinedError, Value
from drivetrain.training.metric_states.confusion import ConfusionMatrix
from drivetrain.training.metric_states.row_columns import Class
from drivetrain.training.metric_states.rows import Form, Is, Share
from drivetrain.training.metric_states.uncertainty.intervals import share
from drivetrain.training.task import Kind, Task


@dataclass(frozen=True)
class Metric:
    """`selected`: predictions of class 1 / samples; `true_positive` and `false_positive`: the same among the samples of
    class 1 and of class 0."""

    kinds: ClassVar[tuple[Kind, ...]] = ("binary",)
    higher_is_better: ClassVar[bool | None] = None
    value_range: ClassVar[Range] = SHARE

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"confusion": ConfusionMatrix("binary", 2, 2)}

    def rows(self, task: Task) -> Mapping[str, Form]:
        taken, is_one, is_zero = Is(Class(2, True)), Is(Class(2, False)), Is(Class(2, False), 0)
        return {
            "selected": Share((taken,)),
            "true_positive": Share((taken,), (is_one,)),
            "false_positive": Share((taken,), (is_zero,)),
        }

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        rejected, wrong, missed, found = counted["confusion"].tolist()
        if not rejected + wrong + missed + found:
            raise UndefinedError("there is no sample")

        def rate(taken: int, of: int, what: str) -> Value:
            if not of:
                return Value(nan, advice=f"no sample is of {what}")
            return Value(taken / of, limits=share(taken, of), num_samples=of)

        return {
            "selected": rate(wrong + found, rejected + wrong + missed + found, "any class"),
            "true_positive": rate(found, missed + found, "class 1"),
            "false_positive": rate(wrong, rejected + wrong, "class 0"),
        }
