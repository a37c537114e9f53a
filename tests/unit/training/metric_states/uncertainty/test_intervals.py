"""Closed forms against scipy's and against their definitions; `make bench` shows how often intervals hold the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import special, stats

from drivetrain.training.metric import Samples, Value, load_metrics
from drivetrain.training.metric_states.accumulator import Accumulator
from drivetrain.training.metric_states.result import Bootstrap, Measured
from drivetrain.training.metric_states.uncertainty.intervals import (
    FEWEST_KEYS,
    FEWEST_OUTCOMES,
    FEWEST_SAMPLES,
    UNLESS,
    area,
    beta_quantile,
    beta_share,
    clopper_pearson,
    interval,
    keys_of_equal_size,
    mean_of,
    share,
    skewed,
    student,
)
from drivetrain.training.process import Process
from drivetrain.training.task import Task

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


@pytest.mark.parametrize("a", [0.4, 1, 2.5, 40, 1e4, 1e6])
@pytest.mark.parametrize("b", [1, 3, 500, 1e9])
def test_the_beta_distribution_is_scipys(a: float, b: float) -> None:
    for probability in (1e-4, 0.025, 0.5, 0.975):
        x = beta_quantile(probability, a, b)
        assert x == pytest.approx(special.betaincinv(a, b, probability), rel=1e-8)
        assert beta_share(x, a, b) == pytest.approx(probability, rel=1e-6)


@pytest.mark.parametrize("degrees", [49, 200, 10**6])
def test_students_distribution_is_scipys(degrees: int) -> None:
    for probability in (0.6, 0.95, 0.975, 0.9995):
        assert student(probability, degrees) == pytest.approx(stats.t.ppf(probability, degrees), abs=1e-5)


@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (0, 50), (50, 50), (353, 357), (17, 40)])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_a_share_has_the_exact_interval(successes: int, trials: int, confidence: float) -> None:
    exact = stats.binomtest(successes, trials).proportion_ci(confidence, method="exact")
    assert clopper_pearson(successes, trials, confidence) == pytest.approx((exact.low, exact.high), abs=1e-10)


@pytest.mark.parametrize(("value", "positives", "negatives"), [(0.5, 5, 45), (0.99, 25, 25), (1.0, 3, 50), (0.0, 4, 9)])
def test_an_area_is_as_far_as_its_standard_error_allows(value: float, positives: int, negatives: int) -> None:
    low, high = area(value, positives, negatives)(0.95)
    assert 0 <= low <= value <= high <= 1 and high - low > 0.05
    for end in (low, high):
        if 0 < end < 1:
            n = (positives + negatives) / 2 - 1
            variance = end * (1 - end) * (1 + n * (1 - end) / (2 - end) + n * end / (1 + end)) / (positives * negatives)
            assert abs(end - value) == pytest.approx(1.959964 * math.sqrt(variance), rel=1e-5)


def test_a_mean_of_shares_is_surer_than_each() -> None:
    each = [share(9, 10), share(90, 100)]
    low, high = mean_of([0.9, 0.9], each, [0.5, 0.5])(0.95)
    gaps = [0.9 - one(0.95)[0] for one in each]
    assert low == pytest.approx(0.9 - math.hypot(*gaps) / 2)
    together = mean_of([0.9, 0.9], each, [0.5, 0.5], stretch=math.inf)(0.95)
    assert together[0] == pytest.approx(0.9 - sum(gaps) / 2) and together[1] >= high


def test_without_a_closed_form_skewness_counts() -> None:
    random = np.random.default_rng(3)
    replicates = random.gamma(4.0, 0.25, 4000)
    low, high = skewed(1.0, replicates, 0.95, 1000)
    t = 1.962 * replicates.std(ddof=1)
    assert high - 1 > 1.2 * t and 1 - low == pytest.approx(t, rel=1e-3)  # the short side is Student's own
    even = skewed(0.0, np.linspace(-1, 1, 4000), 0.95, 10**6)
    assert even == pytest.approx((-1.96 / 3**0.5, 1.96 / 3**0.5), abs=1e-3)
    assert skewed(2.0, np.full(9, 2.0), 0.95, 100) == (2.0, 2.0)


def of(value: Value, replicates: list[float | None], **given: int) -> tuple[tuple[float, float] | None, str]:
    found = interval(value, replicates, 0.9, **({"num_samples": 1000} | given))
    return found.limits, found.why_none


@pytest.mark.parametrize("name", ["rmse", "perplexity"])
def test_values_derived_from_a_mean_have_its_interval(name: str) -> None:
    random = np.random.default_rng(2)
    losses, scale = random.lognormal(0, 1, 240), {"rmse": np.sqrt, "perplexity": np.exp}[name]
    task = Task("regression", 1) if name == "rmse" else Task("values")
    of_mean = "mse" if name == "rmse" else "loss"
    targets = np.sqrt(losses)[:, None] if name == "rmse" else None
    predicted = None if targets is None else np.zeros((240, 1))
    given = Bootstrap(replicates=50)
    counting = Accumulator(ALONE, task, load_metrics(f"{of_mean}, {name}", task), num_rows=240, bootstrap=given)
    counting.update(np.arange(240), Samples(losses=losses, targets=targets, predicted=predicted))
    found = counting.finish().whole.metrics
    ends = found[of_mean].low, found[of_mean].high
    assert None not in ends and (found[name].low, found[name].high) == pytest.approx(tuple(map(scale, ends)), rel=1e-9)


def test_it_holds_the_middle_of_the_replicates_and_their_bound() -> None:
    replicates: list[float | None] = [*map(float, range(101)), None]
    limits, _ = of(Value(50.0), replicates)
    assert limits is not None and limits[0] <= 5 and limits[1] >= 95
    wider = interval(Value(50.0), replicates, 0.9, num_samples=1000, bound=2.0).limits
    assert wider is not None and (wider[0], wider[1]) == pytest.approx((limits[0] - 2, limits[1] + 2))


def test_a_closed_form_needs_no_replicates_and_is_only_widened() -> None:
    value = Value(1.0, limits=share(50, 50))
    assert of(value, [], num_samples=50) == (clopper_pearson(50, 50, 0.9), "")
    assert of(value, [1.0] * 200, num_samples=50)[0] == clopper_pearson(50, 50, 0.9)
    assert of(value, [0.5, 1.0] * 100, num_samples=50)[0] == (0.5, 1.0)


def test_the_interval_of_a_mean_says_what_it_holds_for() -> None:
    replicates: list[float | None] = [0.1, 0.2, 0.3] * 50
    assert interval(Value(0.2), replicates, 0.9, num_samples=1000).unless == UNLESS
    assert interval(Value(0.2, limits=share(200, 1000)), replicates, 0.9, num_samples=1000).unless == ""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"num_samples": FEWEST_SAMPLES - 1}, "too few samples: 199, and 200 are needed"),
        ({"num_right": 1000 - FEWEST_OUTCOMES + 1}, "too few samples: 9 with a wrong prediction, and 10 are needed"),
        ({"num_right": 9}, "too few samples: 9 with a right prediction, and 10 are needed"),
    ],
)
def test_too_few_samples_are_reported(given: dict[str, int], why: str) -> None:
    replicates: list[float | None] = [0.1, 0.2, 0.3] * 50
    assert of(Value(0.2), replicates, **given) == (None, why)
    enough = {name: number + (1 if name == "num_samples" or number < 500 else -1) for name, number in given.items()}
    assert of(Value(0.2), replicates, **enough)[0] is not None


def test_constant_values_are_reported() -> None:
    assert of(Value(1.0), [1.0] * 50) == (None, "too few samples: they do not vary")


def test_the_samples_of_a_class_count_for_it() -> None:
    assert of(Value(0.2, num_samples=5), [0.1, 0.3] * 50) == (None, "too few samples: 5, and 200 are needed")


def test_too_few_replicates_are_reported() -> None:
    assert of(Value(0.2), [None, 0.3]) == (None, "too few replicates define it")


def measured(right: np.ndarray, scores: np.ndarray, replicates: int = 50) -> dict[str, Measured]:
    """A binary task: which samples are right, and the score of class 1."""
    task = Task("binary", 2)
    predicted = (scores >= 0.5).astype(np.int64)
    targets = np.where(right, predicted, 1 - predicted)
    counting = Accumulator(
        ALONE, task, load_metrics("", task), num_rows=len(right), bootstrap=Bootstrap(replicates=replicates)
    )
    rows = np.arange(len(right))
    counting.update(rows, Samples(losses=np.zeros(len(right)), targets=targets, scores=scores, predicted=predicted))
    return dict(counting.finish().whole.metrics)


def test_a_test_set_without_errors_says_no_more_than_it_can() -> None:
    """Each replicate is perfect; another test set need not be."""
    found = measured(np.ones(200, bool), np.linspace(0.01, 0.99, 200))
    least, _ = known = clopper_pearson(200, 200, 0.95)
    assert (found["accuracy"].low, found["accuracy"].high) == known
    for name in ("f1", "recall", "precision", "mcc", "auroc", "average_precision"):
        low = found[name].low
        assert found[name].value == 1.0 and low is not None and low <= least, name
    assert found["log_loss"].low is None
    assert found["log_loss"].no_interval == "too few samples: 0 with a wrong prediction, and 10 are needed"


def test_a_calibration_error_lies_in_its_own_interval_which_allows_for_chance() -> None:
    random = np.random.default_rng(7)
    scores = random.random(400)
    ones = random.random(400) < scores  # calibrated: what is measured is chance alone
    for norm in ("l1", "l2", "max"):
        task = Task("binary", 2)
        metrics = load_metrics(f"calibration_error(norm='{norm}')", task)
        counting = Accumulator(ALONE, task, metrics, num_rows=400, bootstrap=Bootstrap(replicates=100))
        predicted = (scores >= 0.5).astype(np.int64)
        given = Samples(losses=np.zeros(400), targets=ones.astype(np.int64), scores=scores, predicted=predicted)
        counting.update(np.arange(400), given)
        one = counting.finish().whole.metrics["calibration_error"]
        assert one.low is not None and one.high is not None
        assert one.low == 0.0 < one.value < one.high, norm


def test_labels_of_a_sample_may_vary_together() -> None:
    """Of 50 samples with 10 labels one in 50 is wrong, in all of its labels: no interval may count them as 500."""
    random, task = np.random.default_rng(11), Task("multilabel", 10)
    metrics = load_metrics("accuracy, f1(average='micro'), recall(average='micro')", task)
    truth = {"accuracy_labels": 0.98, "f1_micro": 0.98, "recall_micro": 0.98}
    held, trials = dict.fromkeys(truth, 0), 40
    for _ in range(trials):
        targets = (random.random((50, 10)) < 0.5).astype(np.int64)
        wrong = random.random((50, 1)) < 0.02
        scores = np.abs(np.where(wrong, 1 - targets, targets) - 0.1)
        counting = Accumulator(ALONE, task, metrics, num_rows=50, bootstrap=Bootstrap(replicates=10))
        predicted = (scores >= 0.5).astype(np.int64)
        given = Samples(losses=np.zeros(50), targets=targets, scores=scores, predicted=predicted)
        counting.update(np.arange(50), given)
        found = counting.finish().whole.metrics
        for name, value in truth.items():
            low, high = found[name].low, found[name].high
            assert low is not None and high is not None
            held[name] += low <= value <= high
    assert min(held.values()) >= 0.93 * trials, held


def test_positives_of_several_labels_may_lie_in_a_few_samples() -> None:
    """5 of 50 samples have any label, and then all 10: 50 positives say no more than 5 would."""
    task = Task("multilabel", 10)
    (metric,) = load_metrics("recall(average='micro')", task).values()
    found = np.full(10, 4)
    table = np.stack([found, np.zeros(10, int), np.full(10, 1), np.full(10, 45)]).ravel()
    (tally,) = metric.tallies(task)
    value = metric.compute(task, {tally: table})["micro"]
    assert value.value == 0.8 and value.limits is not None
    assert value.limits(0.95) == clopper_pearson(4, 5, 0.95)


def test_keys_count_as_their_sizes_say() -> None:
    random = np.random.default_rng(5)
    for sizes, worth in (([50] * 40, 40), ([500, *[25] * 20], 4), ([1] * 2000, None)):
        drawn = random.poisson(1, (200, len(sizes))) @ np.array(sizes)
        assert keys_of_equal_size(sum(sizes), drawn.tolist()) == (worth and pytest.approx(worth, rel=0.25)), sizes
    assert keys_of_equal_size(100, []) is keys_of_equal_size(100, [90]) is keys_of_equal_size(100, [100, 100]) is None


def test_for_rare_classes_a_closed_form_counts_keys() -> None:
    """All samples of 20 keys are right: that says as much as 20 samples, and not as 200."""
    value = Value(1.0, limits=share(200, 200))
    found = interval(value, [1.0] * 100, 0.95, num_samples=200, num_keys=20).limits
    assert found is not None and found[0] == pytest.approx(clopper_pearson(20, 20, 0.95)[0])
    area_of = Value(1.0, limits=area(1.0, 100, 100))
    found = interval(area_of, [1.0] * 100, 0.95, num_samples=200, num_keys=20).limits
    assert found is not None and found[0] == pytest.approx(area(1.0, 10, 10)(0.95)[0])
    # Many keys with errors show in the replicates, which say more.
    normal = (0.5 + 0.036 * stats.norm.ppf((np.arange(100) + 0.5) / 100)).tolist()
    sure = interval(Value(0.5, limits=share(100, 200)), normal, 0.95, num_samples=200, num_keys=60).limits
    assert sure is not None and sure[0] > clopper_pearson(30, 60, 0.95)[0]
    why = interval(Value(0.2), normal, 0.95, num_samples=200, num_right=150, num_keys=20).why_none
    assert why == "too few samples: 5 with a wrong prediction, and 10 are needed"


def of_keys(keys: int, size: int, random: np.random.Generator) -> Measured:
    """The accuracy of `size` samples of each key, which are right or wrong together: of a key on 80 % or so."""
    shares = random.beta(3.2, 0.8, keys)
    right = random.random((keys, size)) < shares[:, None]
    task = Task("binary", 2)
    counting = Accumulator(
        ALONE,
        task,
        load_metrics("accuracy", task),
        num_rows=right.size,
        bootstrap=Bootstrap(replicates=100, key="patient", seed=int(random.integers(1 << 30))),
    )
    predicted = np.zeros(right.size, np.int64)
    given = Samples(losses=np.zeros(right.size), targets=1 - right.ravel().astype(np.int64), predicted=predicted)
    counting.update(np.arange(right.size), given, {"patient": np.repeat(np.arange(keys), size)})
    return counting.finish().whole.metrics["accuracy"]


def test_samples_that_share_keys_say_as_much_as_these() -> None:
    random = np.random.default_rng(3)
    few = of_keys(8, 50, random)
    assert few.low is None and few.no_interval.startswith("too few keys: the samples vary as ")
    assert few.no_interval.endswith(f" would, and {FEWEST_KEYS} are needed")
    found = [of_keys(25, 20, random) for _ in range(100)]
    held = sum(one.low is not None and one.high is not None and one.low <= 0.8 <= one.high for one in found)
    assert held >= 93
