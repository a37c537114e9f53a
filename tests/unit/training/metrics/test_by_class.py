"""Precision, recall, F1, specificity, Dice and IoU: against scikit-learn, and against fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Samples, UndefinedError
from drivetrain.training.task import Task
from tests.unit.training.metrics.sampling import counted, drawn, metric, off, values

AVERAGES = ("macro", "micro", "weighted")
ORACLES: dict[str, Callable[..., Any]] = {
    "precision": sklearn_metrics.precision_score,
    "recall": sklearn_metrics.recall_score,
    "f1": sklearn_metrics.f1_score,
    "dice": sklearn_metrics.f1_score,
    "iou": sklearn_metrics.jaccard_score,
}
QUOTIENTS: dict[str, Callable[[int, int, int, int], tuple[int, int]]] = {
    "precision": lambda tp, fp, fn, tn: (tp, tp + fp),
    "recall": lambda tp, fp, fn, tn: (tp, tp + fn),
    "f1": lambda tp, fp, fn, tn: (2 * tp, 2 * tp + fp + fn),
    "dice": lambda tp, fp, fn, tn: (2 * tp, 2 * tp + fp + fn),
    "iou": lambda tp, fp, fn, tn: (tp, tp + fp + fn),
    "specificity": lambda tp, fp, fn, tn: (tn, tn + fp),
}


def flat(task: Task, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Targets and predictions as scikit-learn takes them: pixels that count, one after the other."""
    targets, predicted = samples.targets, samples.predicted
    assert targets is not None and predicted is not None
    if task.kind != "segmentation":
        return targets, predicted
    counts = targets != -100
    return targets[counts], predicted[counts]


def quotients(name: str, task: Task, samples: Samples) -> list[tuple[int, int]]:
    """Top and bottom of each class, from Python's own counting."""
    targets, predicted = flat(task, samples)
    found: list[tuple[int, int]] = []
    for place in range(task.num_classes):
        if task.kind == "multilabel":
            one, other = targets[:, place] == 1, predicted[:, place] == 1
        else:
            one, other = targets == place, predicted == place
        tp, fp, fn, tn = (int((a & b).sum()) for a, b in ((one, other), (~one, other), (one, ~other), (~one, ~other)))
        found.append(QUOTIENTS[name](tp, fp, fn, tn))
    return found


@pytest.mark.slow_cases(
    but=[
        "multiclass-precision",
        "multiclass-recall",
        "multiclass-f1",
        "multiclass-dice",
        "multiclass-iou",
        "multilabel-f1",
        "segmentation-f1",
        "binary-f1",
    ]
)
@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("kind", ["multiclass", "multilabel", "segmentation", "binary"])
@settings(deadline=None, max_examples=12)
@given(data=st.data())
def test_averages_are_those_of_scikit_learn(name: str, kind: Any, data: st.DataObject) -> None:
    task, samples = data.draw(drawn(kind))
    targets, predicted = flat(task, samples)
    if not len(targets):
        with pytest.raises(UndefinedError, match="no sample"):
            values(metric(name), task, samples)
        return
    for average in AVERAGES:
        found = values(metric(name, average=average), task, samples)
        expected = ORACLES[name](targets, predicted, average=average, zero_division=0)
        assert found[average] == pytest.approx(expected, rel=1e-12, abs=0)
    if kind != "binary":
        assert values(metric(name), task, samples) == {
            average: values(metric(name, average=average), task, samples)[average] for average in AVERAGES
        }


@pytest.mark.parametrize("name", QUOTIENTS)
@pytest.mark.parametrize("kind", ["multiclass", "multilabel", "segmentation", "binary"])
@settings(deadline=None, max_examples=12)
@given(data=st.data())
def test_classes_and_averages_are_what_fractions_say(name: str, kind: Any, data: st.DataObject) -> None:
    task, samples = data.draw(drawn(kind, least=1))
    targets, predicted = flat(task, samples)
    if not len(targets):
        return
    classes = quotients(name, task, samples)
    occurs = [kind == "multilabel" or bool((targets == c).any() or (predicted == c).any()) for c in range(len(classes))]
    actual = [int(((targets[:, c] if kind == "multilabel" else targets == c) == 1).sum()) for c in range(len(classes))]
    try:
        found = values(metric(name, average="none"), task, samples)
    except UndefinedError:
        found = {f"class_{place}": math.nan for place in range(task.num_classes)}
    for place, (top, bottom) in enumerate(classes):
        if bottom:
            assert found.pop(f"class_{place}") == top / bottom
        elif name == "precision" and actual[place]:
            assert found.pop(f"class_{place}") == 0
        else:
            assert math.isnan(found.pop(f"class_{place}"))
    assert not found
    shares = [Fraction(top, bottom or 1) for top, bottom in classes]
    macro = sum(s for s, o in zip(shares, occurs, strict=True) if o) / Fraction(sum(occurs))
    weighted = sum(s * a for s, a in zip(shares, actual, strict=True)) / Fraction(sum(actual) or 1)
    tops, bottoms = (sum(column[i] for column, o in zip(classes, occurs, strict=True) if o) for i in (0, 1))
    for average, true in (("macro", macro), ("weighted", weighted), ("micro", Fraction(tops, bottoms or 1))):
        assert off(values(metric(name, average=average), task, samples)[average], true) < 1e-15


@settings(deadline=None, max_examples=40)
@given(drawn("binary", least=1))
def test_the_value_of_a_binary_task_is_that_of_class_1(drawn_samples: tuple[Task, Samples]) -> None:
    task, samples = drawn_samples
    targets, predicted = flat(task, samples)
    for name in QUOTIENTS:
        (_, (top, bottom)) = quotients(name, task, samples)
        if bottom or (name == "precision" and targets.any()):
            expected = {"": top / bottom if bottom else 0.0}
            assert values(metric(name), task, samples) == expected
            if name in ORACLES and (targets.any() or predicted.any()):
                assert expected[""] == pytest.approx(ORACLES[name](targets, predicted, zero_division=0), rel=1e-12)
            elif name == "specificity":
                assert expected[""] == sklearn_metrics.recall_score(targets, predicted, pos_label=0, zero_division=0)
        else:
            with pytest.raises(UndefinedError, match="class 1"):
                values(metric(name), task, samples)


def test_classes_beside_averages() -> None:
    samples = Samples(targets=np.array([0, 0, 1, 3]), predicted=np.array([0, 1, 1, 1]))
    task, own = Task("multiclass", 5), metric("recall", per_class=True)
    found = own.compute(task, counted(own, task, samples))
    reasons = {name: value.advice for name, value in found.items() if math.isnan(value.value)}
    assert reasons == {"class_2": "no sample is of class 2", "class_4": "no sample is of class 4"}
    plain = {name: value.value for name, value in found.items() if name not in reasons}
    assert plain == {"macro": 0.5, "micro": 0.5, "weighted": 0.5, "class_0": 0.5, "class_1": 1.0, "class_3": 0.0}
    assert values(metric("precision", per_class=True), Task("multiclass", 5), samples)["class_3"] == 0.0


def test_a_binary_task_with_classes_and_an_average() -> None:
    samples = Samples(targets=np.array([0, 0, 1, 1]), predicted=np.array([0, 1, 1, 1]))
    found = values(metric("recall", per_class=True, average="macro"), Task("binary", 2), samples)
    assert found == {"": 1.0, "macro": 0.75, "class_0": 0.5, "class_1": 1.0}


@settings(deadline=None, max_examples=40)
@given(drawn("segmentation", least=1), st.integers(0, 1))
def test_a_background_is_left_out_of_averages(drawn_samples: tuple[Task, Samples], background: int) -> None:
    task, samples = drawn_samples
    targets, predicted = flat(task, samples)
    labels = sorted({*targets.tolist(), *predicted.tolist()} - {background})
    own = metric("iou", background=background)
    if not labels:
        with pytest.raises(UndefinedError):
            values(own, task, samples)
        return
    for average, found in values(own, task, samples).items():
        expected = sklearn_metrics.jaccard_score(targets, predicted, labels=labels, average=average, zero_division=0)
        assert found == pytest.approx(expected, rel=1e-12, abs=0)


def test_many_classes_take_few_cells() -> None:
    task = Task("multiclass", 1000)
    names = ["precision", "recall", "f1", "specificity", "balanced_accuracy", "mcc", "cohen_kappa"]
    tallies = {tally for name in names for tally in metric(name).tallies(task).values()}
    assert len(tallies) == 1 and tallies.pop().size == 3001
    (matches,) = metric("accuracy").tallies(task).values()
    assert matches.size == 2


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("f1", {"average": "marco"}, "no average 'marco'. Did you mean 'macro'?"),
        ("iou", {"background": -2}, "background=-2; allowed is the number of a class, or -1 for none."),
    ],
)
def test_options_that_there_are_not(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        metric(name, **options)
    assert message in str(caught.value)


def test_a_background_that_is_no_class() -> None:
    with pytest.raises(InputError, match="background=5; allowed is the number of a class, 0 to 4, or -1 for none"):
        metric("dice", background=5).tallies(Task("segmentation", 5))
