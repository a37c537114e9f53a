"""Accuracy: the share of right predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from drivetrain.training_scripts.counting.outcomes import Matches, Outcomes
from drivetrain.training_scripts.metric import Ints, Kind, Tally, Task, UndefinedError, Value


@dataclass(frozen=True)
class Metric:
    """Right predictions / samples (scikit-learn's accuracy_score); of a segmentation, right pixels / pixels.

    A sample of several labels is right where all of its labels are; `labels` is the share of right labels.
    """

    kinds: ClassVar[tuple[Kind, ...]] = ("multiclass", "binary", "multilabel", "segmentation")
    higher_is_better: ClassVar[bool | None] = True

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        matches = {"matches": Matches(task.kind, task.num_classes)}
        return matches | {"outcomes": Outcomes(task.kind, task.num_classes)} if task.kind == "multilabel" else matches

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        wrong, right = counted["matches"].tolist()
        if not wrong + right:
            raise UndefinedError("there is no sample that counts")
        values = {"": Value(right / (wrong + right))}
        if task.kind == "multilabel":
            table = Outcomes(task.kind, task.num_classes).table(counted["outcomes"])
            num_labels = table.num_samples * task.num_classes
            values["labels"] = Value(int(table.found.sum() + table.rejected.sum()) / num_labels)
        return values
