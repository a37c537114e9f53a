"""Log loss, Brier score and calibration error: against scikit-learn, against 50 digits, and against fractions."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics
from sklearn.calibration import calibration_curve

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Samples, UndefinedError
from drivetrain.training.task import Task
from tests.unit.training.metrics.sampling import counted, drawn, metric, off, values

KINDS = ("multiclass", "binary")


def scored(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    assert samples.targets is not None and samples.scores is not None
    return samples.targets, samples.scores


def exact_log_loss(task: Task, samples: Samples) -> Fraction:
    """To 50 digits, of the clipped probabilities."""
    targets, scores = scored(samples)
    edge = Fraction(float(np.finfo(scores.dtype).eps))
    total = Decimal(0)
    with decimal.localcontext(prec=60):
        for target, row in zip(targets.tolist(), scores.tolist(), strict=True):
            given = Fraction(row if task.kind == "binary" else row[target])
            clipped = min(max(given, edge), 1 - edge)
            own = 1 - clipped if task.kind == "binary" and not target else clipped
            total -= (Decimal(own.numerator) / Decimal(own.denominator)).ln()
        return Fraction(total) / len(targets)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_log_loss(kind: Any, data: st.DataObject) -> None:
    task, samples = data.draw(drawn(kind, least=1))
    targets, scores = scored(samples)
    found = values(metric("log_loss"), task, samples)[""]
    assert off(found, exact_log_loss(task, samples)) < 1e-15
    expected = sklearn_metrics.log_loss(targets, y_proba=scores, labels=np.arange(task.num_classes))
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_log_loss_keeps_the_digits_of_small_numbers(kind: Any) -> None:
    # 1 - p has none of them left, and scikit-learn takes its logarithm.
    small = np.array([1e-10, 3e-14, 0.0, 2.0**-53])
    scores = small if kind == "binary" else np.stack([1 - small, small], axis=1)
    task, samples = (
        Task(kind, 2),
        Samples(targets=np.zeros(4, np.int64), scores=scores, predicted=np.zeros(4, np.int64)),
    )
    assert off(values(metric("log_loss"), task, samples)[""], exact_log_loss(task, samples)) < 1e-15


@pytest.mark.parametrize("kind", KINDS)
def test_certainty_is_clipped_as_scikit_learn_does(kind: Any) -> None:
    task, targets = Task(kind, 2), np.array([0, 1, 0, 1])
    sure = np.array([0.0, 1.0, 1.0, 0.0])
    for dtype in (np.float64, np.float32):
        scores = (sure if kind == "binary" else np.stack([1 - sure, sure], axis=1)).astype(dtype)
        found = values(metric("log_loss"), task, Samples(targets=targets, scores=scores))[""]
        expected = sklearn_metrics.log_loss(targets, y_proba=scores)
        assert found == pytest.approx(expected, rel=1e-12 if dtype == np.float64 else 1e-6)
        assert found == pytest.approx(-math.log(float(np.finfo(dtype).eps)) / 2, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_brier(kind: Any, data: st.DataObject) -> None:
    task, samples = data.draw(drawn(kind, least=1))
    targets, scores = scored(samples)
    found = values(metric("brier"), task, samples)[""]
    total = Fraction(0)
    for target, row in zip(targets.tolist(), scores.tolist(), strict=True):
        if kind == "binary":
            total += (Fraction(row) - target) ** 2
        else:
            total += sum((Fraction(p) - (place == target)) ** 2 for place, p in enumerate(row))
    halves = 2 if kind == "multiclass" and task.num_classes == 2 else 1
    assert off(found, total / (len(targets) * halves)) < 1e-15
    expected = sklearn_metrics.brier_score_loss(
        targets, scores, labels=np.arange(task.num_classes), pos_label=None if kind == "multiclass" else 1
    )
    assert found == pytest.approx(expected, rel=1e-12, abs=0)


def exact_bins(task: Task, samples: Samples, bins: int) -> list[tuple[int, int, Fraction]]:
    """Samples, right ones and the sum of confidences of each bin that is not empty."""
    targets, scores = scored(samples)
    assert samples.predicted is not None
    if task.kind == "binary":
        rights, confidences = targets == 1, scores
    else:
        rights, confidences = targets == samples.predicted, scores.max(axis=1)
    edges = np.linspace(0, 1, bins + 1)[1:-1].tolist()
    found: dict[int, tuple[int, int, Fraction]] = {}
    for right, confidence in zip(rights.tolist(), confidences.tolist(), strict=True):
        place = sum(edge < confidence for edge in edges)
        n, many, total = found.get(place, (0, 0, Fraction(0)))
        found[place] = (n + 1, many + right, total + Fraction(confidence))
    return [found[place] for place in sorted(found)]


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_calibration_error(kind: Any, data: st.DataObject) -> None:
    task, samples = data.draw(drawn(kind, least=1))
    bins = data.draw(st.sampled_from([1, 2, 8, 10, 15]))
    filled = exact_bins(task, samples, bins)
    n = sum(many for many, _, _ in filled)
    distances = [(many, abs(right - total) / many) for many, right, total in filled]
    mean = sum((many * d / n for many, d in distances), Fraction(0))
    square = sum((many * d * d / n for many, d in distances), Fraction(0))
    assert off(values(metric("calibration_error", bins=bins), task, samples)[""], mean) < 1e-15
    largest = values(metric("calibration_error", bins=bins, norm="max"), task, samples)[""]
    assert off(largest, max(d for _, d in distances)) < 1e-15
    root = values(metric("calibration_error", bins=bins, norm="l2"), task, samples)[""]
    assert abs(Fraction(root) ** 2 - square) <= 1e-14 * square


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_the_calibration_error_of_a_slice_lies_within_its_bound(kind: Any, data: st.DataObject) -> None:
    """Of slices and replicates, of which there are many: in 3 cells a bin, for almost all digits."""
    task, samples = data.draw(drawn(kind, least=1))
    for norm in ("l1", "l2", "max"):
        exact = metric("calibration_error", bins=8, norm=norm)
        assert exact.coarser(task, 600) is exact
        coarse = exact.coarser(task, 500)
        assert sum(tally.size for tally in coarse.tallies(task).values()) == 24
        assert coarse.coarser(task, 1) == coarse
        (expected,) = exact.compute(task, counted(exact, task, samples)).values()
        (found,) = coarse.compute(task, counted(coarse, task, samples)).values()
        assert expected.bound == 0 < found.bound < 1e-7
        assert abs(Fraction(found.value) - Fraction(expected.value)) <= Fraction(found.bound)


@settings(deadline=None, max_examples=40)
@given(drawn("binary", least=1), st.sampled_from([1, 2, 8, 10, 15, 1000]))
def test_the_reliability_diagram_is_that_of_scikit_learn(drawn_samples: tuple[Task, Samples], bins: int) -> None:
    task, samples = drawn_samples
    targets, scores = scored(samples)
    own = metric("calibration_error", bins=bins)
    (curve,) = own.curves(task, counted(own, task, samples)).values()
    shares, confidences = calibration_curve(targets == 1, scores, n_bins=bins, pos_label=True)
    assert curve["y"] == shares.tolist()
    assert curve["x"] == pytest.approx(confidences.tolist(), rel=1e-12, abs=0)
    assert sum(curve["counts"]) == len(targets) and len(curve["counts"]) == len(curve["x"])


def test_the_confidence_is_that_of_what_is_predicted() -> None:
    # A recipe that decides otherwise than by the highest score.
    samples = Samples(
        targets=np.array([0, 0]), scores=np.array([[0.25, 0.75], [0.125, 0.875]]), predicted=np.array([0, 0])
    )
    own = metric("calibration_error", bins=1)
    (curve,) = own.curves(Task("multiclass", 2), counted(own, Task("multiclass", 2), samples)).values()
    assert (curve["x"], curve["y"]) == ([0.1875], [1.0])


@pytest.mark.parametrize("name", ["log_loss", "brier", "calibration_error"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("score", "message"),
    [
        (
            np.nan,
            "a score is nan: values of the data .*, the model has numbers .*, or it has diverged .*; or .* scores",
        ),
        (1.25, "a score is 1.25, and this metric needs probabilities between 0 and 1"),
        (-0.5, "a score is -0.5, and this metric needs probabilities"),
        (np.inf, "a score is inf"),
    ],
)
def test_scores_that_are_no_probabilities(name: str, kind: Any, score: float, message: str) -> None:
    scores = np.array([0.5, score]) if kind == "binary" else np.array([[0.5, 0.5], [score, 0.5]])
    samples = Samples(targets=np.array([0, 1]), scores=scores, predicted=np.array([0, 1]))
    with pytest.raises(InputError, match=message):
        counted(metric(name), Task(kind, 2), samples)


@pytest.mark.parametrize("name", ["log_loss", "brier", "calibration_error"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_sample(name: str, kind: Any) -> None:
    scores = np.empty(0) if kind == "binary" else np.empty((0, 2))
    none = Samples(targets=np.empty(0, np.int64), scores=scores, predicted=np.empty(0, np.int64))
    with pytest.raises(UndefinedError, match="there is no sample"):
        values(metric(name), Task(kind, 2), none)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bins": 0}, "bins=0; allowed are 1 to 1000 bins"),
        ({"bins": 1001}, "bins=1001; allowed are 1 to 1000 bins"),
        ({"norm": "l3"}, "no norm 'l3'"),
    ],
)
def test_options_that_there_are_not(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        metric("calibration_error", **options)
    assert message in str(caught.value)
