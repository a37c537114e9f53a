"""Token accuracy: the share of tokens that are predicted right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from drivetrain.training.metric import SHARE, Ints, Range, Tally, UndefinedError, Value
from drivetrain.training.metric_states.row_columns import RightParts
from drivetrain.training.metric_states.rows import Form, Mean
from drivetrain.training.metric_states.texts import TokenMatches
from drivetrain.training.task import Kind, Task


@dataclass(frozen=True)
class Metric:
    """Right tokens / tokens that count, over all samples: a long text weighs more than a short one.

    Each token is predicted with the right ones before it. (Tokens of one text are not independent: intervals are the
    bootstrap's.)
    """

    kinds: ClassVar[tuple[Kind, ...]] = ("tokens",)
    higher_is_better: ClassVar[bool | None] = True
    value_range: ClassVar[Range] = SHARE

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"matches": TokenMatches()}

    def rows(self, task: Task) -> Mapping[str, Form]:
        right, counted = (RightParts(task.kind, task.num_classes, counted) for counted in (False, True))
        return {"": Mean(right, counted)}

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        wrong, right = counted["matches"].tolist()
        if not wrong + right:
            raise UndefinedError("there is no token that counts")
        return {"": Value(right / (wrong + right))}
