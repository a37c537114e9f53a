"""R2: the share of the targets' variance that the model explains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from drivetrain.training.metric import Ints, Range, Tally, UndefinedError, Value
from drivetrain.training.metric_states.numbers.sums import num_samples, totals
from drivetrain.training.metric_states.output_errors import OutputError, OutputTargets
from drivetrain.training.metric_states.rows import Form
from drivetrain.training.metrics._by_output import ByOutput
from drivetrain.training.task import Task


@dataclass(frozen=True)
class Metric(ByOutput):
    """1 - sum of (target - output)^2 / sum of (target - mean target)^2, of each output (scikit-learn's r2_score).

    The sums are exact, so that nothing is lost where the mean is far from 0. As in scikit-learn, an output whose
    targets are all the same has 1 where every prediction is right, and else 0; two samples are needed.
    """

    higher_is_better: ClassVar[bool | None] = True
    value_range: ClassVar[Range] = (-inf, 1.0)
    error: ClassVar[OutputError] = "squared"

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {**super().tallies(task), "targets": OutputTargets(task.num_classes)}

    def rows(self, task: Task) -> Mapping[str, Form]:
        return {}  # the variance of the targets belongs to all rows

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        n = num_samples(counted["errors"])
        if n < 2:
            raise UndefinedError("there is one sample only, and a variance needs two")
        sums = totals(counted["targets"])
        values: list[float] = []
        for place, errors in enumerate(totals(counted["errors"])):
            mean_times_n, squares = sums[place], sums[task.num_classes + place]
            spread = squares - mean_times_n * mean_times_n / n
            try:
                values.append(float(1 - errors / spread) if spread > 0 else float(not errors))
            except OverflowError:
                raise UndefinedError("it is below every 64-bit number: the targets hardly differ") from None
        return self.averaged(values)
