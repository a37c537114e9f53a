"""Matthews' correlation coefficient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from drivetrain.training.metric import CORRELATION, Ints, Range, Tally, Value
from drivetrain.training.metric_states.numbers.sums import root
from drivetrain.training.metric_states.outcomes import Outcomes, beyond_chance
from drivetrain.training.task import Kind, Task


@dataclass(frozen=True)
class Metric:
    """The correlation of targets and predictions (J. Gorodkin, "Comparing two K-category assignments by a K-category
    correlation coefficient", 2004; scikit-learn's matthews_corrcoef): covariance / root of both variances.

    0, as in scikit-learn, where all targets are of one class, or all predictions.
    """

    kinds: ClassVar[tuple[Kind, ...]] = ("multiclass", "binary", "segmentation")
    higher_is_better: ClassVar[bool | None] = True
    value_range: ClassVar[Range] = CORRELATION

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"outcomes": Outcomes(task.kind, task.num_classes)}

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        # In Python's whole numbers: the products of counts are beyond 64 bits.
        table = Outcomes(task.kind, task.num_classes).table(counted["outcomes"])
        n, right, actual, claimed = (
            table.num_samples,
            int(table.found.sum()),
            table.actual.tolist(),
            table.claimed.tolist(),
        )
        covariance = n * right - sum(a * c for a, c in zip(actual, claimed, strict=True))
        variances = (n * n - sum(a * a for a in actual)) * (n * n - sum(c * c for c in claimed))
        if not variances:
            return {"": Value(0.0)}
        size = root(Fraction(covariance * covariance, variances))
        value = size if covariance >= 0 else -size
        return {"": Value(value, limits=None if task.kind == "segmentation" else beyond_chance(value, table))}
