"""Metrics of real outputs: against scikit-learn where it keeps its digits, and against fractions everywhere."""

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
from tests.unit.training.metrics.sampling import drawn, metric, off, values

ORACLES: dict[str, Callable[..., float]] = {
    "mae": sklearn_metrics.mean_absolute_error,
    "mse": sklearn_metrics.mean_squared_error,
    "rmse": sklearn_metrics.root_mean_squared_error,
    "mape": sklearn_metrics.mean_absolute_percentage_error,
    "r2": sklearn_metrics.r2_score,
}
Pairs = list[tuple[Fraction, Fraction]]


def columns(samples: Samples) -> list[Pairs]:
    """Of each output (target, prediction) of each sample."""
    assert samples.targets is not None and samples.predicted is not None
    return [
        [(Fraction(t), Fraction(p)) for t, p in zip(targets, predicted, strict=True)]
        for targets, predicted in zip(samples.targets.T.tolist(), samples.predicted.T.tolist(), strict=True)
    ]


def mean(numbers: list[Fraction]) -> Fraction:
    return sum(numbers, Fraction(0)) / len(numbers)


def r2(pairs: Pairs) -> Fraction:
    middle = mean([t for t, _ in pairs])
    spread = sum(((t - middle) ** 2 for t, _ in pairs), Fraction(0))
    errors = sum(((t - p) ** 2 for t, p in pairs), Fraction(0))
    return 1 - errors / spread if spread else Fraction(not errors)


TRUE: dict[str, Callable[[Pairs], Fraction]] = {
    "mae": lambda pairs: mean([abs(t - p) for t, p in pairs]),
    "mse": lambda pairs: mean([(t - p) ** 2 for t, p in pairs]),
    "mape": lambda pairs: mean([abs(t - p) / max(abs(t), Fraction(2) ** -52) for t, p in pairs]),
    "r2": r2,
}


@pytest.mark.parametrize("name", ORACLES)
@settings(deadline=None, max_examples=40)
@given(drawn("regression", least=2, classes=(1, 4)))
def test_as_scikit_learn(name: str, drawn_samples: tuple[Task, Samples]) -> None:
    task, samples = drawn_samples
    found = values(metric(name), task, samples)[""]
    expected = ORACLES[name](samples.targets, samples.predicted)
    if name == "r2":
        assert samples.targets is not None
        # scikit-learn's rounded mean makes a variance of what is all the same.
        if any(len(set(column)) == 1 for column in samples.targets.T.tolist()):
            return
        # Its digits are lost where 1 - a quotient near 1 is left.
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12 * max(1, abs(expected)))
    else:
        assert found == pytest.approx(expected, rel=1e-12, abs=0)


# (Squares of numbers below 1e-146 are not all there.)
numbers = st.one_of(
    st.floats(-1e3, 1e3).map(lambda number: number if abs(number) > 1e-100 else 0.0),
    st.integers(-3, 3).map(float),
    st.floats(1e100, 1e150),
    st.floats(-1e150, -1e100),
    st.integers(-40, 40).map(lambda step: 1e9 + step * 2.0**-20),
)


@pytest.mark.slow_cases(but=["mape"])
@pytest.mark.parametrize("name", TRUE)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_as_fractions_say_whatever_the_numbers(name: str, data: st.DataObject) -> None:
    outputs = data.draw(st.integers(1, 2))
    row = st.lists(st.tuples(numbers, numbers), min_size=outputs, max_size=outputs)
    rows = data.draw(st.lists(row, min_size=2, max_size=20))
    pairs = np.array(rows, np.float64)
    samples = Samples(targets=pairs[:, :, 0], predicted=pairs[:, :, 1])
    task = Task("regression", outputs)
    true = [TRUE[name](column) for column in columns(samples)]
    try:
        [float(each) for each in true]
    except OverflowError:
        with pytest.raises(UndefinedError, match="below every 64-bit number"):
            values(metric(name), task, samples)
        return
    found = values(metric(name, per_output=True), task, samples)
    for place, each in enumerate(true):
        assert abs(Fraction(found[f"output_{place}"]) - each) <= max(Fraction(1e-15) * abs(each), Fraction(1e-280))
    sizes = [abs(each) for each in true]
    assert abs(Fraction(found[""]) - mean(true)) <= max(Fraction(1e-15) * mean(sizes), Fraction(1e-280))


def test_a_mean_far_from_0_costs_no_digits() -> None:
    random = np.random.default_rng(5)
    targets = 1e15 + random.integers(0, 16, (1000, 1)) / 8
    predicted = targets + random.integers(-2, 3, (1000, 1)) / 8
    samples, task = Samples(targets=targets, predicted=predicted), Task("regression", 1)
    true = r2(columns(samples)[0])
    assert off(values(metric("r2"), task, samples)[""], true) < 1e-15
    # What sums of squares in float64 would make of it.
    naive = 1 - ((targets - predicted) ** 2).sum() / ((targets**2).sum() - targets.sum() ** 2 / 1000)
    assert off(float(naive), true) > 0.1


def test_a_mean_of_outputs_whose_sum_is_too_large() -> None:
    targets = np.array([[1e9, 1e9], [1e9 + 2.0**-20, 1e9 + 2.0**-20]])
    samples = Samples(targets=targets, predicted=np.array([[1e147, 1e147], [1e9, 1e9]]) * 8)
    found = values(metric("r2", per_output=True), Task("regression", 2), samples)
    assert found[""] == found["output_0"] == found["output_1"] < -1e308


def test_a_model_that_explains_almost_nothing() -> None:
    # 1 - a quotient near 1: what each rounded difference leaves is what counts.
    targets = np.random.default_rng(6).normal(size=(50, 1))
    samples = Samples(targets=targets, predicted=np.full((50, 1), targets.mean() + 1e-6))
    true = r2(columns(samples)[0])
    assert abs(true) < 1e-11
    assert off(values(metric("r2"), Task("regression", 1), samples)[""], true) < 1e-15


def test_targets_that_are_all_the_same() -> None:
    task, targets = Task("regression", 2), np.full((3, 2), 0.1)
    predicted = np.array([[0.1, 0.1], [0.1, 0.2], [0.1, 0.1]])
    found = values(metric("r2", per_output=True), task, Samples(targets=targets, predicted=predicted))
    assert found == {"": 0.5, "output_0": 1.0, "output_1": 0.0}


def test_the_root_of_each_output_is_taken_before_their_mean() -> None:
    samples = Samples(targets=np.zeros((2, 2)), predicted=np.array([[3.0, 0.0], [3.0, 8.0]]))
    found = values(metric("rmse", per_output=True), Task("regression", 2), samples)
    assert found == {"": (3 + math.sqrt(32)) / 2, "output_0": 3.0, "output_1": math.sqrt(32)}


@settings(deadline=None, max_examples=40)
@given(drawn("regression", least=1, classes=(1, 4)), st.sampled_from([0.05, 0.1, 0.5, 0.9, 0.999]))
def test_quantile_error(drawn_samples: tuple[Task, Samples], q: float) -> None:
    task, samples = drawn_samples
    found = values(metric("quantile_error", q=q), task, samples)[""]
    true = mean([mean([(t - p) * (Fraction(q) - (t < p)) for t, p in column]) for column in columns(samples)])
    assert off(found, true) < 1e-15
    expected = sklearn_metrics.mean_pinball_loss(samples.targets, samples.predicted, alpha=q)
    assert found == pytest.approx(expected, rel=1e-12, abs=0)


def test_equal_sums_are_counted_once() -> None:
    task = Task("regression", 3)
    tallies = [tally for name in ("mse", "rmse", "r2") for tally in metric(name).tallies(task).values()]
    assert len(tallies) == 4 and len(set(tallies)) == 2


@pytest.mark.parametrize("name", [*ORACLES, "quantile_error"])
@pytest.mark.parametrize(
    ("target", "predicted", "message"),
    [
        (np.nan, 1.0, "a target is nan"),
        (1.0, np.inf, "a prediction is inf; allowed are numbers up to 1e[+]150: values of the data there are"),
        (-1e200, 1.0, "a target is -1e[+]200; allowed are numbers up to 1e[+]150: correct the label column"),
    ],
)
def test_numbers_that_cannot_be_counted(name: str, target: float, predicted: float, message: str) -> None:
    samples = Samples(targets=np.array([[0.0], [target]]), predicted=np.array([[0.0], [predicted]]))
    with pytest.raises(InputError, match=message):
        values(metric(name), Task("regression", 1), samples)


@pytest.mark.parametrize("name", ORACLES)
def test_no_sample_and_one(name: str) -> None:
    none = Samples(targets=np.empty((0, 1)), predicted=np.empty((0, 1)))
    with pytest.raises(UndefinedError, match="there is no sample"):
        values(metric(name), Task("regression", 1), none)
    one = Samples(targets=np.ones((1, 1)), predicted=np.ones((1, 1)))
    if name == "r2":
        with pytest.raises(UndefinedError, match="one sample only"):
            values(metric(name), Task("regression", 1), one)
    else:
        assert values(metric(name), Task("regression", 1), one) == {"": 0.0}


@pytest.mark.parametrize("q", [0.0, 1.0, -0.5, math.nan])
def test_quantiles_that_there_are_not(q: float) -> None:
    with pytest.raises(InputError, match=r"q=.*; allowed is a number above 0 and below 1"):
        metric("quantile_error", q=q)


def test_outputs_of_another_number() -> None:
    samples: Any = Samples(targets=np.zeros((2, 3)), predicted=np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"targets have shape \[2, 3\]; a regression of 1 outputs needs \[2, 1\]"):
        values(metric("mae"), Task("regression", 1), samples)
