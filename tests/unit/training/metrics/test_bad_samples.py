"""Samples that cannot be counted: one clear error that names the value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Samples
from drivetrain.training.task import Kind, Task
from tests.unit.training.metrics.sampling import counted, metric

BY_CLASS = ("accuracy", "f1", "confusion_matrix", "cohen_kappa", "mcc", "balanced_accuracy", "calibration_error")


def bad(kind: Kind, targets: Any, predicted: Any, num_classes: int = 3) -> tuple[Task, Samples]:
    task = Task(kind, 2 if kind == "binary" else num_classes)
    scores = np.full((len(targets), num_classes), 0.5)
    return task, Samples(
        targets=None if targets is None else np.array(targets),
        predicted=None if predicted is None else np.array(predicted),
        scores=scores[:, 0] if kind == "binary" else scores,
    )


@pytest.mark.parametrize("name", BY_CLASS)
@pytest.mark.parametrize(
    ("kind", "target", "message"),
    [
        ("multiclass", 3, "a target is 3; allowed is the classes 0 to 2"),
        ("multiclass", -1, "a target is -1; allowed is the classes 0 to 2"),
        ("multiclass", -100, "a target is -100; allowed is the classes 0 to 2"),
        ("binary", 2, "a target is 2; allowed is the classes 0 to 1"),
    ],
)
def test_targets_outside_the_classes(name: str, kind: Kind, target: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        counted(metric(name), *bad(kind, [0, target], [0, 1]))


@pytest.mark.parametrize(
    ("kind", "targets", "predicted", "message"),
    [
        (
            "multiclass",
            [0, 1],
            [0, 7],
            "a prediction is 7; allowed is the classes 0 to 2. Correct the recipe's predicted",
        ),
        ("multilabel", [[0, 2, 0]], [[0, 0, 0]], "a target is 2; allowed is 0 or 1 for each label"),
        ("multilabel", [[0, 1]], [[0, 1]], r"targets have shape \[1, 2\]; 3 labels need \[1, 3\]"),
        (
            "segmentation",
            [[0, -1]],
            [[0, 1]],
            "a target is -1; allowed is the classes 0 to 2, and -100 for what is not",
        ),
        ("multiclass", [0, 1], [0], r"targets have shape \[2\] and predictions \[1\]; they have to be the same"),
        ("multiclass", [0.5, 1], [0, 1], "targets are float64 numbers; numbers of classes"),
        ("multiclass", [0, 1], None, "a metric needs predictions, and the recipe has none for its task"),
    ],
)
def test_other_invalid_samples_are_refused(kind: Kind, targets: Any, predicted: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        counted(metric("f1"), *bad(kind, targets, predicted))


def test_scores_of_another_shape() -> None:
    samples = Samples(targets=np.array([0, 1]), scores=np.full((2, 4), 0.25), predicted=np.array([0, 1]))
    for name in ("top_k", "brier", "log_loss", "calibration_error"):
        with pytest.raises(InputError, match=r"shape \[2, 4\]; a multiclass task of 3 classes needs \[2, 3\]"):
            counted(metric(name), Task("multiclass", 3), samples)
