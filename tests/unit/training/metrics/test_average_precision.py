"""Average precision: what the histogram says is never further off than its bound, ties included."""

from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from drivetrain.training.metric import Samples, UndefinedError
from drivetrain.training.metric_states.ranking.ranking import rank_exactly
from drivetrain.training.metric_states.ranking.score_histogram import bins_of
from drivetrain.training.metrics.average_precision import Metric
from drivetrain.training.process import Process
from drivetrain.training.task import Task
from tests.unit.training.metrics.adversarial import BINARY, RESOLUTIONS, binary, drawn, exact_precision, holds
from tests.unit.training.metrics.sampling import counted

ALONE = Process(0, 1, 0, 1, None)  # type: ignore[arg-type]


@settings(deadline=None)
@given(drawn(), RESOLUTIONS)
def test_the_bound_is_never_violated(samples: tuple[list[float], list[bool]], resolution: int) -> None:
    metric, exact = Metric(resolution=resolution), exact_precision(*samples)
    counts = counted(metric, BINARY, binary(*samples))
    if exact is None:
        with pytest.raises(UndefinedError, match="no sample of class 1"):
            metric.compute(BINARY, counts)
        return
    assert holds(metric.compute(BINARY, counts)[""], exact)


def arrangements(positives: int, negatives: int) -> list[list[tuple[int, int]]]:
    """Every way to put samples into groups of equal scores, from the highest: (positives, negatives) of each group."""
    if not positives and not negatives:
        return [[]]
    found = []
    for ones, zeros in itertools.product(range(positives + 1), range(negatives + 1)):
        if ones or zeros:
            found += [[(ones, zeros), *rest] for rest in arrangements(positives - ones, negatives - zeros)]
    return found


@pytest.mark.parametrize(("positives", "negatives"), [(1, 0), (1, 2), (2, 0), (2, 2), (3, 1), (3, 2)])
@pytest.mark.parametrize(("above", "below"), [((0, 0), (0, 0)), ((2, 3), (1, 1)), ((0, 4), (0, 2))])
def test_each_order_in_a_bin_is_within_the_bound_and_the_ends_are_reached(
    positives: int, negatives: int, above: tuple[int, int], below: tuple[int, int]
) -> None:
    metric = Metric(resolution=1)
    exacts, values = [], set()
    for groups in arrangements(positives, negatives):
        scores, positive = [], []
        levels = [(1.0, above), *((0.45 - 0.01 * place, group) for place, group in enumerate(groups)), (0.0, below)]
        for score, (ones, zeros) in levels:
            scores += [score] * (ones + zeros)
            positive += [True] * ones + [False] * zeros
        assert len(np.unique(bins_of(np.array(scores[sum(above) : len(scores) - sum(below)]), 1))) == 1
        exacts.append(exact_precision(scores, positive))
        values.add(metric.compute(BINARY, counted(metric, BINARY, binary(scores, positive)))[""])
    (value,) = values  # the bin cannot tell them apart
    known = [exact for exact in exacts if exact is not None]
    assert all(holds(value, exact) for exact in known)
    highest, lowest = value.value + value.bound, value.value - value.bound
    assert highest == pytest.approx(float(max(known)), rel=1e-14)
    if positives <= 2:
        assert lowest == pytest.approx(float(min(known)), rel=1e-14)


@settings(deadline=None)
@given(drawn(least=2))
def test_exact_mode_is_right(samples: tuple[list[float], list[bool]]) -> None:
    exact = exact_precision(*samples)
    rankings = {name: [one] for name, one in Metric().rankings(BINARY, binary(*samples)).items()}
    ranked, _ = rank_exactly(ALONE, rankings)
    if exact is None:
        with pytest.raises(UndefinedError):
            Metric().compute_exact(BINARY, ranked)
        return
    (of_class,) = ranked.values()
    assert of_class.precision_sum == float(exact * of_class.num_positives)
    value = Metric().compute_exact(BINARY, ranked)[""]
    assert value.bound == 0 and abs(Fraction(value.value) - exact) <= 2 * Fraction(math.ulp(value.value))


@pytest.mark.parametrize("distance", [0, 1, 3])
def test_scores_of_a_model_have_a_narrow_bound(distance: float) -> None:
    random = np.random.default_rng(0)
    targets = random.random(200_000) < 0.4
    scores = 1 / (1 + np.exp(-1.5 * random.normal(size=200_000) - distance * (targets - 0.5)))
    samples = Samples(scores=scores, targets=targets.astype(np.int64))
    value = Metric().compute(BINARY, counted(Metric(), BINARY, samples))[""]
    assert 0 < value.bound <= 1e-4 and not value.advice
    assert abs(value.value - average_precision_score(targets, scores)) <= value.bound


def test_constant_scores_have_a_wide_bound_and_advice() -> None:
    samples = binary([0.3] * 100, [True] * 40 + [False] * 60)
    value = Metric().compute(BINARY, counted(Metric(), BINARY, samples))[""]
    assert holds(value, Fraction(40, 100)) and value.bound > 0.3
    assert "mode=exact" in value.advice


def test_positives_alone_are_all_precise() -> None:
    value = Metric().compute(BINARY, counted(Metric(), BINARY, binary([0.3, 0.3, 0.31, 0.9], [True] * 4)))[""]
    assert (value.value, value.bound) == (1.0, 0.0)


def test_more_samples_than_int64_has_products() -> None:
    (tally,) = Metric().tallies(BINARY).values()
    cells, bins = np.zeros(tally.size, np.int64), tally.size // 2
    cells[40_000] = 2**35
    cells[[bins + 30_000, bins + 40_000]] = 2**34, 2**33
    value = Metric().compute(BINARY, {"scores": cells})[""]
    p, n, q = 2**33, 2**35, 2**34
    highest = Fraction(p + q * (p + q) / Fraction(p + q + n), p + q)
    assert holds(value, highest)


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
    samples = Samples(scores=scores, targets=targets)
    truth = np.eye(classes, dtype=int)[targets] if kind == "multiclass" else targets
    metric = Metric(per_class=True)
    rankings = {name: [one] for name, one in metric.rankings(task, samples).items()}
    exact = metric.compute_exact(task, rank_exactly(ALONE, rankings)[0])
    found = metric.compute(task, counted(metric, task, samples))
    assert set(found) == set(exact)
    for average in ("macro", "weighted", None):
        expected = average_precision_score(truth, scores, average=average)
        names = [average] if average else [f"class_{number}" for number in range(classes)]
        for name, number in zip(names, np.atleast_1d(expected).tolist(), strict=True):
            assert exact[name].value == pytest.approx(number, rel=1e-12)
            assert abs(found[name].value - number) <= found[name].bound + 1e-12


def test_a_class_that_does_not_occur_has_none() -> None:
    task = Task("multiclass", 3)
    scores, targets = np.array([[0.2, 0.7, 0.1], [0.6, 0.3, 0.1], [0.4, 0.5, 0.1]]), np.array([1, 0, 1])
    found = Metric(per_class=True).compute(task, counted(Metric(), task, Samples(scores=scores, targets=targets)))
    assert math.isnan(found["macro"].value) and found["macro"].advice == "there is no sample of class 2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn counts the missing class as 0, with no weight here
        expected = average_precision_score(np.eye(3, dtype=int)[targets], scores, average="weighted")
    assert found["weighted"].value == pytest.approx(expected)
