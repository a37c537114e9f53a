"""Confusion matrix: which classes are taken for which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from drivetrain.base.errors import InputError
from drivetrain.training.metric import SHARE, Ints, Range, Tally, UndefinedError, Value
from drivetrain.training.metric_states.confusion import ConfusionMatrix
from drivetrain.training.task import Kind, Task

MOST_SHOWN = 999


@dataclass(frozen=True)
class Metric:
    """Counts of (target's class, predicted class), as a table (scikit-learn's confusion_matrix). It has no value."""

    shown: int = 100
    """So many classes have a row and a column; of more classes the others are put together as one, "other"."""

    kinds: ClassVar[tuple[Kind, ...]] = ("multiclass", "binary", "segmentation")
    higher_is_better: ClassVar[bool | None] = None
    value_range: ClassVar[Range] = SHARE

    def __post_init__(self) -> None:
        if not 0 <= self.shown <= MOST_SHOWN:
            raise InputError(f"shown={self.shown}; allowed are 0 to {MOST_SHOWN} classes.")

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"matrix": self._matrix(task)}

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        if not counted["matrix"].any():
            raise UndefinedError("there is no sample that counts")
        return {}

    def curves(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Mapping[str, Any]]:
        side = self._matrix(task).side
        names = [*(task.class_names or map(str, range(task.num_classes)))]
        if side < task.num_classes or not names:
            names = [*names[: side - 1], "other"]
        return {
            "": {
                "kind": "matrix",
                "rows": names,
                "columns": names,
                "cells": counted["matrix"].reshape(side, side).tolist(),
                "row_label": "target",
                "column_label": "predicted",
            }
        }

    def _matrix(self, task: Task) -> ConfusionMatrix:
        return ConfusionMatrix(task.kind, task.num_classes, self.shown)
