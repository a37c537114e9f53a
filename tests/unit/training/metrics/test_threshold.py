"""The cheapest threshold: what it counts is so, and none of those between the samples costs less."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Samples, UndefinedError, load_metrics
from drivetrain.training.metric_states.ranking.score_histogram import bins_of
from drivetrain.training.metrics.threshold import Metric
from drivetrain.training.task import Task
from tests.unit.training.metrics.adversarial import BINARY, RESOLUTIONS, binary, drawn
from tests.unit.training.metrics.sampling import counted

COSTS = st.sampled_from([(1.0, 1.0), (1.0, 5.0), (10.0, 1.0), (0.1, 0.3), (1e9, 1e-9), (7.0, 3.0)])


def cost_at(threshold: float, samples: Samples, costs: tuple[float, float]) -> Fraction:
    assert samples.scores is not None and samples.targets is not None
    taken = samples.scores >= threshold
    wrong, missed = int((taken & (samples.targets == 0)).sum()), int((~taken & (samples.targets == 1)).sum())
    return (Fraction(str(costs[0])) * wrong + Fraction(str(costs[1])) * missed) / len(samples.scores)


@settings(deadline=None)
@given(drawn(), RESOLUTIONS, COSTS)
def test_no_threshold_between_bins_costs_less(
    given: tuple[list[float], list[bool]], resolution: int, costs: tuple[float, float]
) -> None:
    samples, metric = binary(*given), Metric(resolution, *costs)
    counts = counted(metric, BINARY, samples)
    if len(set(given[1])) < 2:
        with pytest.raises(UndefinedError, match=r"all samples are of class 1|no sample of class 1"):
            metric.compute(BINARY, counts)
        return
    values = {name: value.value for name, value in metric.compute(BINARY, counts).items()}
    chosen = metric.curves(BINARY, counts)[""]["chosen"]
    assert samples.scores is not None and samples.targets is not None
    taken = samples.scores >= values[""]
    assert 0 <= values[""] <= 1
    assert (chosen["true_positives"], chosen["false_positives"], chosen["true_negatives"]) == (
        int((taken & (samples.targets == 1)).sum()),
        int((taken & (samples.targets == 0)).sum()),
        int((~taken & (samples.targets == 0)).sum()),
    )
    cost = cost_at(values[""], samples, costs)
    assert values["cost"] == chosen["cost"] == float(cost)
    assert values["recall"] == chosen["true_positives"] / sum(given[1])
    # The least score of each bin splits the bins as every other threshold between them does.
    bins = bins_of(samples.scores, resolution)
    others = [float(samples.scores[bins == each].min()) for each in set(bins.tolist())]
    assert cost <= min(cost_at(other, samples, costs) for other in [0.0, *others, *([1.0] * (max(given[0]) < 1))])


def test_costs_move_it_and_ties_are_settled_by_what_a_calibrated_model_would_take() -> None:
    random = np.random.default_rng(0)
    scores = random.random(20_000)
    samples = Samples(scores=scores, targets=(random.random(20_000) < scores).astype(np.int64))
    for false_positive, false_negative in ((1.0, 1.0), (1.0, 4.0), (9.0, 1.0)):
        metric = Metric(12, false_positive, false_negative)
        chosen = metric.compute(BINARY, counted(metric, BINARY, samples))
        assert chosen[""].value == pytest.approx(false_positive / (false_positive + false_negative), abs=0.05)
        apart = Samples(scores=np.array([0.1, 0.9]), targets=np.array([0, 1]))
    assert Metric().compute(BINARY, counted(Metric(), BINARY, apart))[""].value == pytest.approx(0.5, abs=1e-3)


def test_its_curve_has_the_cost_at_one_half_and_at_other_costs() -> None:
    samples = Samples(scores=np.array([0.2, 0.45, 0.6, 0.7, 0.8]), targets=np.array([0, 1, 0, 1, 1]))
    metric = Metric(12, 1.0, 3.0)
    curve = metric.curves(BINARY, counted(metric, BINARY, samples))[""]
    assert curve["costs"] == {"false_positive": 1.0, "false_negative": 3.0}
    assert (curve["chosen"]["false_positives"], curve["chosen"]["false_negatives"], curve["chosen"]["cost"]) == (
        1,
        0,
        0.2,
    )
    assert (curve["at_half"]["false_positives"], curve["at_half"]["false_negatives"]) == (1, 1)
    assert curve["at_half"]["cost"] == pytest.approx(0.8)
    dear = {one["false_positive"]: one for one in curve["other_costs"]}[10.0]
    assert (dear["false_positives"], dear["false_negatives"], dear["cost"]) == (0, 1, 0.2)
    assert len(curve["x"]) == len(curve["y"]) == len(curve["precision"]) == len(curve["recall"]) == 6
    assert curve["x"] == sorted(curve["x"]) and min(curve["y"]) == 0.2
    assert curve["recall"][0] == 1.0 and curve["recall"][-1] == 0.0


@settings(deadline=None)
@given(drawn(), COSTS)
def test_one_of_the_corners_is_the_cheapest_at_any_costs(
    given: tuple[list[float], list[bool]], costs: tuple[float, float]
) -> None:
    samples = binary(*given)
    if len(set(given[1])) < 2:
        return
    counts = counted(Metric(8), BINARY, samples)
    corners = Metric(8).curves(BINARY, counts)[""]["best_at_some_costs"]
    cheapest = Metric(8, *costs).compute(BINARY, counts)["cost"].value
    of_corners = [float(cost_at(threshold, samples, costs)) for threshold in corners["threshold"]]
    assert min(of_corners) == cheapest
    positives = sum(given[1])
    for threshold, ones, zeros in zip(*corners.values(), strict=True):
        exact = Fraction(str(costs[0])) * zeros + Fraction(str(costs[1])) * (positives - ones)
        assert exact / len(given[1]) == cost_at(threshold, samples, costs)


@pytest.mark.parametrize("cost", [0.0, -1.0, float("inf"), float("nan"), 1e10])
def test_an_invalid_cost_is_refused(cost: float) -> None:
    with pytest.raises(InputError, match=r"false_negative_cost=.*allowed are costs above 0"):
        Metric(false_negative_cost=cost)


def test_the_settings_give_costs_where_the_list_does_not() -> None:
    task, defaults = Task("binary", 2), {"threshold": {"false_negative_cost": 5.0}}
    assert load_metrics("", task, defaults)["threshold"] == Metric(false_negative_cost=5.0)
    assert load_metrics("threshold(false_negative_cost=2.0)", task, defaults)["threshold"] == Metric(12, 1.0, 2.0)


def test_its_interval_reaches_further_by_what_the_choice_gains() -> None:
    samples = _drawn(np.random.default_rng(4), 1_000, 0.5, 1.05)
    metric = Metric(12)
    found = metric.compute(BINARY, counted(metric, BINARY, samples))
    again = metric.compute(BINARY, counted(metric, BINARY, samples))
    for name, sign in (("cost", 1), ("precision", -1), ("recall", 1)):
        value = found[name]
        assert value.limits is not None and again[name].limits is not None
        low, high = value.limits(0.95)
        assert (low, high) == again[name].limits(0.95)
        assert low < value.value < high and low > value.limits(0.99)[0]
        if name != "recall":  # which the choice may move either way
            assert sign * (high - value.value) > sign * (value.value - low)


def _drawn(random: np.random.Generator, size: int, prevalence: float, distance: float) -> Samples:
    """Samples of a calibrated model whose scores come of two normal distributions so far apart."""
    targets = (random.random(size) < prevalence).astype(np.int64)
    x = random.standard_normal(size) + distance * targets
    logits = distance * (x - distance / 2) + np.log(prevalence / (1 - prevalence))
    return Samples(scores=1 / (1 + np.exp(-logits)), targets=targets)


@pytest.mark.slow
@pytest.mark.parametrize(("prevalence", "distance", "costs"), [(0.5, 1.05, (1.0, 1.0)), (0.1, 2.5, (1.0, 5.0))])
def test_intervals_hold_what_the_chosen_threshold_comes_to_on_other_samples(
    prevalence: float, distance: float, costs: tuple[float, float]
) -> None:
    """Of 200 test sets of 1,000 samples; those of a threshold that was given would hold the cost in 91 %."""
    normal, trials = NormalDist(), 200
    metric, held = Metric(12, *costs), dict.fromkeys(("cost", "precision", "recall"), 0)
    for trial in range(trials):
        samples = _drawn(np.random.default_rng([trial, 5]), 1_000, prevalence, distance)
        found = metric.compute(BINARY, counted(metric, BINARY, samples))
        logit = math.log(found[""].value / (1 - found[""].value))
        x = (logit - math.log(prevalence / (1 - prevalence))) / distance + distance / 2
        wrong, missed = (1 - prevalence) * (1 - normal.cdf(x)), prevalence * normal.cdf(x - distance)
        right = prevalence - missed
        truth = {
            "cost": costs[0] * wrong + costs[1] * missed,
            "precision": right / (right + wrong),
            "recall": right / prevalence,
        }
        for name, true in truth.items():
            limits = found[name].limits
            assert limits is not None
            low, high = limits(0.95)
            held[name] += low <= true <= high
    assert all(number >= 0.94 * trials for number in held.values()), held
