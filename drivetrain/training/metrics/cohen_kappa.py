"""Cohen's kappa: agreement beyond what chance would give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from drivetrain.training.errors import unknown_name
from drivetrain.training.metric import CORRELATION, Ints, Range, Tally, UndefinedError, Value
from drivetrain.training.metric_states.confusion import Distances
from drivetrain.training.metric_states.outcomes import Outcomes, beyond_chance
from drivetrain.training.task import Kind, Task

WEIGHTS = ("none", "linear", "quadratic")


@dataclass(frozen=True)
class Metric:
    """1 - disagreement / disagreement by chance (J. Cohen, "A coefficient of agreement for nominal scales", 1960;
    scikit-learn's cohen_kappa_score with all classes as `labels`).

    Undefined where chance would disagree nowhere: all targets and all predictions are of one class.
    """

    weights: str = "none"
    """The weight of a disagreement: `none` 1, `linear` the distance of the class numbers, `quadratic` its square."""

    kinds: ClassVar[tuple[Kind, ...]] = ("multiclass", "binary")
    higher_is_better: ClassVar[bool | None] = True
    value_range: ClassVar[Range] = CORRELATION

    def __post_init__(self) -> None:
        if self.weights not in WEIGHTS:
            raise unknown_name("weights", self.weights, WEIGHTS)

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        tallies: dict[str, Tally] = {"outcomes": Outcomes(task.kind, task.num_classes)}
        if self.weights != "none":
            tallies["distances"] = Distances(task.kind, task.num_classes)
        return tallies

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        table = Outcomes(task.kind, task.num_classes).table(counted["outcomes"])
        n, actual, claimed = table.num_samples, table.actual.tolist(), table.claimed.tolist()
        # Both times the number of samples squared, in Python's whole numbers.
        if self.weights == "none":
            observed = n * (n - int(table.found.sum()))
            by_chance = n * n - sum(a * c for a, c in zip(actual, claimed, strict=True))
        else:
            power = 1 if self.weights == "linear" else 2
            observed = n * sum(many * distance**power for distance, many in enumerate(counted["distances"].tolist()))
            by_chance = _linear(n, actual, claimed) if power == 1 else _quadratic(n, actual, claimed)
        if not by_chance:
            raise UndefinedError("all targets and all predictions are of one class")
        value = (by_chance - observed) / by_chance
        return {"": Value(value, limits=beyond_chance(value, table) if self.weights == "none" else None)}


def _linear(n: int, actual: list[int], claimed: list[int]) -> int:
    """The sum over pairs of classes of |i - j| * actual[i] * claimed[j]: at each step of the scale, who is apart."""
    steps = zip(accumulate(actual), accumulate(claimed), strict=True)
    return sum(a * (n - c) + c * (n - a) for a, c in steps)


def _quadratic(n: int, actual: list[int], claimed: list[int]) -> int:
    """The sum over pairs of classes of (i - j)^2 * actual[i] * claimed[j]."""
    squares = sum(i * i * (a + c) for i, (a, c) in enumerate(zip(actual, claimed, strict=True)))
    means = sum(i * a for i, a in enumerate(actual)) * sum(j * c for j, c in enumerate(claimed))
    return n * squares - 2 * means
