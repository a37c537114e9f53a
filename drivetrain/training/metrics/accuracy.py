"""Accuracy: the share of right predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from drivetrain.training.metric import SHARE, Ints, Range, Tally, UndefinedError, Value
from drivetrain.training.metric_states.outcomes import Matches, Outcomes
from drivetrain.training.metric_states.row_columns import Right, RightParts
from drivetrain.training.metric_states.rows import Form, Is, Mean, Share
from drivetrain.training.metric_states.uncertainty.intervals import share
from drivetrain.training.task import Kind, Task


@dataclass(frozen=True)
class Metric:
    """Right predictions / samples (scikit-learn's accuracy_score); of a segmentation, right pixels / pixels.

    A sample of several labels is right where all of its labels are; `labels` is the share of right labels.
    """

    kinds: ClassVar[tuple[Kind, ...]] = ("multiclass", "binary", "multilabel", "segmentation")
    higher_is_better: ClassVar[bool | None] = True
    value_range: ClassVar[Range] = SHARE

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        matches = {"matches": Matches(task.kind, task.num_classes)}
        return matches | {"outcomes": Outcomes(task.kind, task.num_classes)} if task.kind == "multilabel" else matches

    def rows(self, task: Task) -> Mapping[str, Form]:
        parts, counted = (RightParts(task.kind, task.num_classes, counted) for counted in (False, True))
        if task.kind == "segmentation":
            return {"": Mean(parts, counted)}
        right: dict[str, Form] = {"": Share((Is(Right(task.kind, task.num_classes)),))}
        return right | {"labels": Mean(parts)} if task.kind == "multilabel" else right

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        wrong, right = counted["matches"].tolist()
        if not wrong + right:
            raise UndefinedError("there is no sample that counts")
        # (Pixels of one picture are not independent.)
        limits = None if task.kind == "segmentation" else share(right, wrong + right)
        values = {"": Value(right / (wrong + right), limits=limits)}
        if task.kind == "multilabel":
            table = Outcomes(task.kind, task.num_classes).table(counted["outcomes"])
            num_labels = table.num_samples * task.num_classes
            # Labels of one sample vary together, as they like: then a sample says no more than one label would.
            share_of_labels = int(table.found.sum() + table.rejected.sum()) / num_labels
            limits = share(share_of_labels * table.num_samples, table.num_samples)
            values["labels"] = Value(share_of_labels, limits=limits)
        return values
