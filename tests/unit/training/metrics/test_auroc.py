"""AUROC: what the histogram says is never further off than its bound; exact mode is exact."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from drivetrain.training.metric import HasExact, HasResolution, Samples, UndefinedError
from drivetrain.training.metric_states.ranking.ranking import rank_exactly
from drivetrain.training.metrics.auroc import Metric
from drivetrain.training.process import Process
from drivetrain.training.task import Task
from tests.unit.training.metrics.adversarial import BINARY, RESOLUTIONS, binary, drawn, exact_area, holds
from tests.unit.training.metrics.sampling import counted

ALONE = Process(0, 1, 0, 1, None)  # type: ignore[arg-type]


@settings(deadline=None)
@given(drawn(), RESOLUTIONS)
def test_the_bound_is_never_violated(samples: tuple[list[float], list[bool]], resolution: int) -> None:
    metric, exact = Metric(resolution=resolution), exact_area(*samples)
    counts = counted(metric, BINARY, binary(*samples))
    if exact is None:
        with pytest.raises(UndefinedError, match=r"no sample of class 1|all samples are of class 1"):
            metric.compute(BINARY, counts)
        return
    assert holds(metric.compute(BINARY, counts)[""], exact)


@settings(deadline=None)
@given(drawn(least=2))
def test_exact_mode_is_right_to_the_last_digit(samples: tuple[list[float], list[bool]]) -> None:
    exact = exact_area(*samples)
    rankings = {name: [one] for name, one in Metric().rankings(BINARY, binary(*samples)).items()}
    ranked, collectives = rank_exactly(ALONE, rankings)
    assert collectives == 0
    if exact is None:
        with pytest.raises(UndefinedError):
            Metric().compute_exact(BINARY, ranked)
        return
    value = Metric().compute_exact(BINARY, ranked)[""]
    assert (value.value, value.bound) == (float(exact), 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distance", [0, 1, 3])
def test_scores_of_a_model_have_a_narrow_bound(distance: float, dtype: type) -> None:
    random = np.random.default_rng(0)
    targets = random.random(100_000) < 0.4
    scores = (1 / (1 + np.exp(-1.5 * random.normal(size=100_000) - distance * (targets - 0.5)))).astype(dtype)
    samples = Samples(scores=scores, targets=targets.astype(np.int64))
    value = Metric().compute(BINARY, counted(Metric(), BINARY, samples))[""]
    assert 0 < value.bound <= 1e-5 and not value.advice
    assert abs(value.value - roc_auc_score(targets, scores)) <= value.bound


def test_constant_scores_have_a_wide_bound_and_advice() -> None:
    value = Metric().compute(BINARY, counted(Metric(), BINARY, binary([0.3] * 10, [True] * 4 + [False] * 6)))[""]
    assert (value.value, value.bound) == (0.5, 0.5)
    assert "mode=exact" in value.advice


def test_scores_that_are_saturated_are_ties_and_known_to_be() -> None:
    samples = binary([1.0, 1.0, 1.0, 0.0, 0.5, 0.5], [True, True, False, False, True, False])
    value = Metric().compute(BINARY, counted(Metric(), BINARY, samples))[""]
    assert value.bound == 0 and value.value == float(Fraction(2 * 5 + 3, 18))


def test_more_samples_than_int64_has_pairs() -> None:
    (tally,) = Metric().tallies(BINARY).values()
    cells = np.zeros(tally.size, np.int64)
    bins = tally.size // 2
    cells[[100, 5000]] = 2**40, 2**41  # negatives
    cells[[bins + 5000, bins + 40_000]] = 2**40, 2**42
    value = Metric().compute(BINARY, {"scores": cells})[""]
    positives, negatives = 2**40 + 2**42, 2**40 + 2**41
    sure, unsure = 2**80 + 2**42 * negatives, 2**81
    pairs = positives * negatives
    assert holds(value, Fraction(sure, pairs)) and holds(value, Fraction(sure + unsure, pairs))
    assert value.bound == pytest.approx(unsure / 2 / pairs)


@pytest.mark.slow_cases("multilabel")
@pytest.mark.parametrize("kind", ["multiclass", "multilabel"])
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.sampled_from([0, 4]))
def test_several_classes(kind: str, seed: int, classes: int, step: int) -> None:
    random = np.random.default_rng(seed)
    task = Task(kind, classes)  # type: ignore[arg-type]
    scores = random.random((60, classes))
    scores = np.round(scores * step) / step if step else scores
    targets = random.integers(0, classes, 60) if kind == "multiclass" else random.integers(0, 2, (60, classes))
    if kind == "multiclass":
        scores = (scores + 0.01) / (scores + 0.01).sum(axis=1, keepdims=True)
    samples = Samples(scores=scores, targets=targets)
    truth = np.eye(classes, dtype=int)[targets] if kind == "multiclass" else targets
    metric = Metric(per_class=True)
    rankings = {name: [one] for name, one in metric.rankings(task, samples).items()}
    exact = metric.compute_exact(task, rank_exactly(ALONE, rankings)[0])
    found = metric.compute(task, counted(metric, task, samples))
    assert list(found) == list(exact) == ["macro", "weighted", *(f"class_{number}" for number in range(classes))]
    for average in ("macro", "weighted", None):
        if kind == "multiclass" and classes > 2 and average:
            expected = roc_auc_score(targets, scores, average=average, multi_class="ovr")
        else:
            expected = roc_auc_score(truth, scores, average=average)
        names = [average] if average else [f"class_{number}" for number in range(classes)]
        for name, number in zip(names, np.atleast_1d(expected).tolist(), strict=True):
            assert exact[name].value == pytest.approx(number, rel=1e-12)
            assert abs(found[name].value - number) <= found[name].bound + 1e-12


def test_a_missing_class_is_given_as_the_reason() -> None:
    task = Task("multiclass", 3)
    samples = Samples(scores=np.array([[0.2, 0.7, 0.1], [0.6, 0.3, 0.1], [0.5, 0.4, 0.1]]), targets=np.array([1, 0, 1]))
    found = Metric(per_class=True).compute(task, counted(Metric(), task, samples))
    assert math.isnan(found["macro"].value) and math.isnan(found["class_2"].value)
    assert found["macro"].advice == found["class_2"].advice == "there is no sample of class 2"
    assert found["class_0"].value == found["class_1"].value == found["weighted"].value == 1.0
    only = Samples(scores=samples.scores, targets=np.array([1, 1, 1]))
    with pytest.raises(UndefinedError, match="no sample of class 0"):
        Metric().compute(task, counted(Metric(), task, only))


def test_it_can_be_coarser_and_exact() -> None:
    assert isinstance(Metric(), HasExact) and isinstance(Metric(), HasResolution)
    task = Task("multiclass", 1000)
    fine, coarse = Metric(), Metric(per_class=True).coarser(task, 200_000)
    assert coarse == Metric(per_class=True, resolution=4)
    assert fine.coarser(task, 10**9).tallies(task) == fine.tallies(task)
    assert coarse.tallies(task)["scores"].size <= 200_000 < replace(coarse, resolution=5).tallies(task)["scores"].size
