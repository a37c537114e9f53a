"""Top-k accuracy: how often the right class is among the k likeliest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from drivetrain.base.errors import InputError
from drivetrain.training.metric import SHARE, Ints, Range, Tally, UndefinedError, Value
from drivetrain.training.metric_states.ranking.ranks import Ranks
from drivetrain.training.metric_states.row_columns import AmongFirst
from drivetrain.training.metric_states.rows import Form, Is, Share
from drivetrain.training.metric_states.uncertainty.intervals import share
from drivetrain.training.task import Kind, Task

_STEP = 16


@dataclass(frozen=True)
class Metric:
    """Samples whose target is among the k classes of the highest scores / samples (scikit-learn's top_k_accuracy_score;
    among equal scores the higher class number goes first, as there)."""

    k: int = 5
    """How many classes."""

    kinds: ClassVar[tuple[Kind, ...]] = ("multiclass",)
    higher_is_better: ClassVar[bool | None] = True
    value_range: ClassVar[Range] = SHARE

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError(f"k={self.k}; allowed is a whole number of classes from 1.")

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"ranks": self._ranks(task)}

    def rows(self, task: Task) -> Mapping[str, Form]:
        return {"": Share((Is(AmongFirst(self._ranks(task), self.k)),))}

    def _ranks(self, task: Task) -> Ranks:
        # In steps, so that top 1 and top 5 are counted once.
        depth = min(-(-self.k // _STEP) * _STEP, task.num_classes)
        return Ranks(task.num_classes, depth)

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        ranks = counted["ranks"].tolist()
        if not (num_samples := sum(ranks)):
            raise UndefinedError("there is no sample")
        found = sum(ranks[: self.k])
        return {"": Value(found / num_samples, limits=share(found, num_samples))}
