"""Loss and perplexity."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Samples, UndefinedError
from drivetrain.training.task import Task
from tests.unit.training.metrics.sampling import metric, values

TASK = Task("tokens", 5)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=50))
def test_the_loss_is_the_mean_rounded_once(losses: list[float]) -> None:
    true = sum(map(Fraction, losses)) / len(losses)
    assert values(metric("loss"), TASK, Samples(losses=np.array(losses))) == {"": float(true)}


@given(st.lists(st.floats(0, 10), min_size=1, max_size=50))
def test_perplexity(losses: list[float]) -> None:
    true = float(sum(map(Fraction, losses)) / len(losses))
    assert values(metric("perplexity"), TASK, Samples(losses=np.array(losses))) == {"": math.exp(true)}


@given(st.lists(st.tuples(st.floats(-1e100, 1e100), st.integers(0, 2**40)), min_size=1, max_size=50))
def test_samples_that_weigh_something(pairs: list[tuple[float, int]]) -> None:
    weight = sum(each for _, each in pairs)
    losses, weights = (np.array(each, dtype=np.float64) for each in zip(*pairs, strict=True))
    given_samples = Samples(losses=losses, weights=weights)
    if not weight:
        with pytest.raises(UndefinedError, match="there is no sample that weighs anything"):
            values(metric("loss"), TASK, given_samples)
        return
    true = sum(Fraction(loss) * each for loss, each in pairs) / weight
    assert values(metric("loss"), TASK, given_samples) == {"": float(true)}


def test_a_model_that_knows_nothing_hesitates_among_all_tokens() -> None:
    found = values(metric("perplexity"), TASK, Samples(losses=np.full(7, math.log(50_000))))
    assert found[""] == pytest.approx(50_000, rel=1e-12)


def test_both_are_made_of_one_sum() -> None:
    assert metric("loss").tallies(TASK) == metric("perplexity").tallies(TASK)


@pytest.mark.parametrize("name", ["loss", "perplexity"])
def test_no_sample(name: str) -> None:
    with pytest.raises(UndefinedError, match="there is no sample"):
        values(metric(name), TASK, Samples(losses=np.empty(0)))


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number(loss: float) -> None:
    with pytest.raises(InputError, match=f"{loss} of sample 1 "):
        values(metric("loss"), TASK, Samples(losses=np.array([1.0, loss])))


def test_a_loss_whose_exponential_is_too_large() -> None:
    with pytest.raises(UndefinedError, match="the mean loss is 800, and its exponential is no 64-bit number"):
        values(metric("perplexity"), TASK, Samples(losses=np.array([800.0])))
