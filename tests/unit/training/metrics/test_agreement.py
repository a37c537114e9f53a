"""Accuracy, top-k, confusion matrix, balanced accuracy, MCC and kappa: against scikit-learn, and against fractions."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Samples, UndefinedError
from drivetrain.training.metric_states.numbers.sums import root
from drivetrain.training.task import Task
from tests.unit.training.metrics.sampling import counted, drawn, metric, off, samples_of, values

CLASSES = ("multiclass", "binary", "segmentation")


def pairs(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Targets and predictions that count."""
    assert samples.targets is not None and samples.predicted is not None
    counts = samples.targets != -100
    return samples.targets[counts], samples.predicted[counts]


def table(task: Task, samples: Samples) -> list[list[int]]:
    found = [[0] * task.num_classes for _ in range(task.num_classes)]
    for target, predicted in zip(*(column.tolist() for column in pairs(samples)), strict=True):
        found[target][predicted] += 1
    return found


@pytest.mark.slow_cases("multiclass")
@pytest.mark.parametrize("kind", CLASSES)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_accuracy(kind: Any, data: st.DataObject) -> None:
    task, samples = data.draw(drawn(kind))
    targets, predicted = pairs(samples)
    if not len(targets):
        with pytest.raises(UndefinedError, match="no sample that counts"):
            values(metric("accuracy"), task, samples)
        return
    assert values(metric("accuracy"), task, samples) == {"": sklearn_metrics.accuracy_score(targets, predicted)}
    balanced = values(metric("balanced_accuracy"), task, samples)[""]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # predictions of classes that are no target
        assert balanced == pytest.approx(sklearn_metrics.balanced_accuracy_score(targets, predicted), rel=1e-12, abs=0)
        if len(set(targets.tolist())) == 1:
            with pytest.raises(UndefinedError, match="one class"):
                values(metric("balanced_accuracy", adjusted=True), task, samples)
            return
        adjusted = values(metric("balanced_accuracy", adjusted=True), task, samples)[""]
        expected = sklearn_metrics.balanced_accuracy_score(targets, predicted, adjusted=True)
        assert adjusted == pytest.approx(expected, rel=1e-12, abs=1e-15)


@settings(deadline=None, max_examples=40)
@given(drawn("multilabel", least=1))
def test_accuracy_of_several_labels(drawn_samples: tuple[Task, Samples]) -> None:
    task, samples = drawn_samples
    found = values(metric("accuracy"), task, samples)
    assert found[""] == sklearn_metrics.accuracy_score(samples.targets, samples.predicted)
    distance = sklearn_metrics.hamming_loss(samples.targets, samples.predicted)
    assert found["labels"] == pytest.approx(1 - distance, rel=1e-12, abs=1e-15)


@settings(deadline=None, max_examples=40)
@given(drawn("multiclass", least=1, classes=(3, 20)), st.integers(1, 25))
def test_top_k(drawn_samples: tuple[Task, Samples], k: int) -> None:
    task, samples = drawn_samples
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # k of all classes
        expected = sklearn_metrics.top_k_accuracy_score(
            samples.targets, samples.scores, k=k, labels=np.arange(task.num_classes)
        )
    assert values(metric("top_k", k=k), task, samples) == {"": expected}


def test_top_k_of_a_thousand_classes_is_a_small_histogram() -> None:
    task = Task("multiclass", 1000)
    (first,), (fifth,) = (metric("top_k", k=k).tallies(task).values() for k in (1, 5))
    assert first == fifth and first.size == 17
    (deep,) = metric("top_k", k=17).tallies(task).values()
    assert deep.size == 33


def test_scores_of_top_k_need_not_be_probabilities() -> None:
    samples = Samples(targets=np.array([0, 1]), scores=np.array([[-3.0, 7.0, -5.0], [0.0, 1e300, -np.inf]]))
    task = Task("multiclass", 3)
    assert values(metric("top_k", k=1), task, samples) == {"": 0.5}
    assert values(metric("top_k", k=2), task, samples) == {"": 1.0}
    with pytest.raises(InputError, match="a score is nan"):
        values(metric("top_k"), task, Samples(targets=np.array([0]), scores=np.array([[0.5, np.nan, 0.5]])))


@pytest.mark.parametrize("kind", CLASSES)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_confusion_matrix(kind: Any, data: st.DataObject) -> None:
    task, samples = data.draw(drawn(kind))
    own = metric("confusion_matrix")
    (curve,) = own.curves(task, counted(own, task, samples)).values()
    assert curve["cells"] == table(task, samples)
    assert curve["rows"] == curve["columns"] == [str(number) for number in range(task.num_classes)]
    if len(pairs(samples)[0]):
        assert own.compute(task, counted(own, task, samples)) == {}
    else:
        with pytest.raises(UndefinedError):
            own.compute(task, counted(own, task, samples))


@pytest.mark.parametrize("kind", ["multiclass", "segmentation"])
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_matrix_of_fewer_classes_puts_the_others_together(kind: Any, data: st.DataObject) -> None:
    task, samples = data.draw(drawn(kind))
    shown = data.draw(st.integers(0, task.num_classes - 1))
    own = metric("confusion_matrix", shown=shown)
    (curve,) = own.curves(task, counted(own, task, samples)).values()
    whole = np.array(table(task, samples))
    whole[shown] = whole[shown:].sum(axis=0)
    whole[:, shown] = whole[:, shown:].sum(axis=1)
    assert curve["cells"] == whole[: shown + 1, : shown + 1].tolist()
    alone = shown + 1 == task.num_classes  # what is left is one class, and has its name
    assert curve["rows"] == [*map(str, range(shown)), str(shown) if alone else "other"]


def test_names_of_classes_stand_in_the_matrix() -> None:
    own, task = metric("confusion_matrix", shown=1), Task("multiclass", 3, ("ant", "bee", "wasp"))
    samples = Samples(targets=np.array([0, 2]), predicted=np.array([1, 2]))
    (curve,) = own.curves(task, counted(own, task, samples)).values()
    assert curve["rows"] == ["ant", "other"] and curve["cells"] == [[0, 1], [0, 1]]
    assert metric("confusion_matrix").curves(task, {"matrix": np.zeros(9, np.int64)})[""]["columns"][2] == "wasp"


def test_a_matrix_of_many_classes_stays_small() -> None:
    assert metric("confusion_matrix").tallies(Task("multiclass", 1000))["matrix"].size == 101**2
    own, task = metric("confusion_matrix", shown=0), Task("multiclass", 1000)
    (curve,) = own.curves(task, counted(own, task, samples_of("multiclass", 1, 7, 1000))).values()
    assert curve["rows"] == ["other"] and curve["cells"] == [[7]]


def exact_mcc(cells: list[list[int]]) -> tuple[int, Fraction]:
    """Sign and square, by the covariances of indicators."""
    n = sum(map(sum, cells))
    rows, columns = [sum(row) for row in cells], [sum(column) for column in zip(*cells, strict=True)]
    both = sum(Fraction(cells[k][k], n) - Fraction(rows[k] * columns[k], n * n) for k in range(len(cells)))
    one, other = (1 - sum(Fraction(each, n) ** 2 for each in marginal) for marginal in (rows, columns))
    if not one * other:
        return 0, Fraction(0)
    return (1 if both > 0 else -1 if both < 0 else 0), both * both / (one * other)


@pytest.mark.parametrize("kind", CLASSES)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_mcc(kind: Any, data: st.DataObject) -> None:
    task, samples = data.draw(drawn(kind))
    targets, predicted = pairs(samples)
    if not len(targets):
        with pytest.raises(UndefinedError):
            values(metric("mcc"), task, samples)
        return
    found = values(metric("mcc"), task, samples)[""]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one class only
        expected = sklearn_metrics.matthews_corrcoef(targets, predicted)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)
    sign, square = exact_mcc(table(task, samples))
    assert math.copysign(1, found) == sign or found == sign == 0
    assert off(found, sign * Fraction(root(square))) == 0
    assert abs(Fraction(found) ** 2 - square) <= 3e-16 * square


def exact_kappa(cells: list[list[int]], power: int | None) -> Fraction | None:
    n, size = sum(map(sum, cells)), range(len(cells))
    rows, columns = [sum(row) for row in cells], [sum(column) for column in zip(*cells, strict=True)]

    def weight(i: int, j: int) -> int:
        return int(i != j) if power is None else abs(i - j) ** power

    observed = sum(Fraction(weight(i, j) * cells[i][j], n) for i in size for j in size)
    by_chance = sum(Fraction(weight(i, j) * rows[i] * columns[j], n * n) for i in size for j in size)
    return 1 - observed / by_chance if by_chance else None


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
@pytest.mark.parametrize("kind", ["multiclass", "binary"])
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_kappa(kind: Any, weights: str, data: st.DataObject) -> None:
    task, samples = data.draw(drawn(kind, least=1))
    targets, predicted = pairs(samples)
    own = metric("cohen_kappa", weights=weights)
    true = exact_kappa(table(task, samples), {"none": None, "linear": 1, "quadratic": 2}[weights])
    if true is None:
        with pytest.raises(UndefinedError, match="all targets and all predictions are of one class"):
            values(own, task, samples)
        return
    found = values(own, task, samples)[""]
    assert found == float(true)
    expected = sklearn_metrics.cohen_kappa_score(
        targets, predicted, labels=np.arange(task.num_classes), weights=None if weights == "none" else weights
    )
    # (scikit-learn subtracts a float64 from 1.)
    assert found == pytest.approx(expected, rel=1e-12, abs=4e-15)


@pytest.mark.parametrize("name", ["mcc", "cohen_kappa"])
def test_a_perfect_model_and_none_at_all(name: str) -> None:
    task, samples = Task("multiclass", 4), samples_of("multiclass", 3, 50, 4)
    assert samples.targets is not None
    right = Samples(targets=samples.targets, predicted=samples.targets)
    assert values(metric(name), task, right) == {"": 1.0}
    constant = Samples(targets=samples.targets, predicted=np.zeros(50, np.int64))
    assert values(metric(name), task, constant) == {"": 0.0}


def test_counts_beyond_what_float64_can_square() -> None:
    # n * right - sum(actual * claimed) of n = 2e12, where float64 has lost the last six digits.
    half, extra = 10**12, 3
    counts = np.array([half + extra, half, half, half - extra], np.int64)
    task = Task("binary", 2)
    cells = counts.reshape(2, 2).tolist()
    sign, square = exact_mcc(cells)
    assert metric("mcc").compute(task, {"outcomes": counts})[""].value == sign * root(square)
    assert metric("cohen_kappa").compute(task, {"outcomes": counts})[""].value == float(exact_kappa(cells, None) or 0)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**200), st.integers(1, 2**200))
def test_roots_are_correctly_rounded(top: int, bottom: int) -> None:
    square = Fraction(top, bottom)
    found = root(square)
    if not top:
        assert found == 0
        return
    low, high = (Fraction(math.nextafter(found, to)) for to in (0, math.inf))
    exact = Fraction(found)
    assert ((exact + low) / 2) ** 2 <= square <= ((exact + high) / 2) ** 2


@pytest.mark.parametrize(("least", "rounded"), [(1, 2**53 + 2), (-1, 2**53 + 2), (0, 2**53)])
def test_roots_next_to_a_tie(least: int, rounded: int) -> None:
    tie = 2**53 + 3 if least < 0 else 2**53 + 1
    assert root(Fraction(tie) ** 2 + Fraction(least, 2**100)) == rounded


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("top_k", {"k": 0}, "k=0; allowed is a whole number of classes from 1"),
        ("confusion_matrix", {"shown": -1}, "shown=-1; allowed are 0 to 999 classes"),
        ("cohen_kappa", {"weights": "square"}, "no weights 'square'"),
    ],
)
def test_options_that_there_are_not(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        metric(name, **options)


def test_a_matrix_is_plain_json() -> None:
    own, task = metric("confusion_matrix"), Task("multiclass", 3)
    samples = samples_of("multiclass", 1, 20, 3)
    assert json.loads(json.dumps(own.curves(task, counted(own, task, samples))))
