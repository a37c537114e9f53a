"""The common part of the metrics of a regression: a value an output, and their mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from drivetrain.training.metric import FROM_ZERO, Ints, Range, Tally, Value
from drivetrain.training.metric_states.numbers.sums import num_samples, totals
from drivetrain.training.metric_states.output_errors import OutputError, OutputErrors
from drivetrain.training.metric_states.row_columns import OutputErrorOf
from drivetrain.training.metric_states.rows import Average, Form, Mean, Scale
from drivetrain.training.task import Kind, Task


@dataclass(frozen=True)
class ByOutput:
    """A metric that is the mean over the outputs of a value each, as scikit-learn's `uniform_average` is."""

    per_output: bool = False
    """Each output as well: `output_0`, `output_1`, ..."""

    kinds: ClassVar[tuple[Kind, ...]] = ("regression",)
    higher_is_better: ClassVar[bool | None] = False
    value_range: ClassVar[Range] = FROM_ZERO
    error: ClassVar[OutputError]
    scale: ClassVar[tuple[Callable[[Any], Any], Callable[[float], float]] | None] = None
    """As that of a Value."""

    row_scale: ClassVar[Scale] = ""
    """The same of rows."""

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"errors": self.errors(task)}

    def errors(self, task: Task) -> OutputErrors:
        return OutputErrors(task.num_classes, self.error)

    def rows(self, task: Task) -> Mapping[str, Form]:
        outputs = range(task.num_classes)
        each = tuple(Mean(OutputErrorOf(self.errors(task), place), scale=self.row_scale) for place in outputs)
        found: dict[str, Form] = {"": each[0] if len(each) == 1 else Average(each, ((),) * len(each))}
        return found | ({f"output_{place}": each[place] for place in outputs} if self.per_output else {})

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        n = num_samples(counted["errors"])
        return self.averaged([self.of_mean(total / n) for total in totals(counted["errors"])])

    def of_mean(self, mean: Fraction) -> float:
        """An output's value from the mean of its errors."""
        return float(mean)

    def averaged(self, outputs: Sequence[float]) -> Mapping[str, Value]:
        """The values, from that of each output."""
        # As fractions: the sum of two large numbers may be no float64 where their mean is one.
        values = {"": Value(float(sum(map(Fraction, outputs)) / len(outputs)), scale=self.scale)}
        if self.per_output:
            values |= {f"output_{place}": Value(value, scale=self.scale) for place, value in enumerate(outputs)}
        return values
