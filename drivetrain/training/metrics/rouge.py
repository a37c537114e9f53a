"""ROUGE: which share of the words of two texts agree, or of their longest common sequence.

C. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004; counted by rouge-score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from drivetrain.base.errors import InputError
from drivetrain.training.metric import SHARE, Ints, Range, Tally, UndefinedError, Value
from drivetrain.training.metric_states.numbers import exact_sum
from drivetrain.training.metric_states.own_values import NumSamples
from drivetrain.training.metric_states.texts import RougeSum
from drivetrain.training.task import Kind, Task

KINDS = ("rouge1", "rouge2", "rougel")


@dataclass(frozen=True)
class Metric:
    """The mean F-measure over the samples."""

    kind: str = "rougel"
    """rouge1 (words), rouge2 (pairs of words) or rougel (the longest common sequence)."""

    kinds: ClassVar[tuple[Kind, ...]] = ("tokens", "values")
    higher_is_better: ClassVar[bool | None] = True
    value_range: ClassVar[Range] = SHARE

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"metric 'rouge': kind={self.kind!r}; allowed are {', '.join(KINDS)}.")

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"sum": RougeSum(self.kind), "samples": NumSamples()}

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        count = int(counted["samples"][0])
        if not count:
            raise UndefinedError("there is no sample")
        mean = exact_sum.mean(counted["sum"], count)
        assert math.isfinite(mean)
        return {"": Value(mean)}
