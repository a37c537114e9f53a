"""Weights of replicates, and what is counted with them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Counts
from drivetrain.training.metric_states.numbers import exact_sum
from drivetrain.training.metric_states.numbers.hashing import hash_column
from drivetrain.training.metric_states.uncertainty.bootstrap import (
    LARGEST_WEIGHT,
    THRESHOLDS,
    add_weighted,
    keys_of,
    weights,
)

WEIGHTS = [
    [1, 0, 1, 1, 0, 3, 2, 1, 1, 2, 0, 1],
    [2, 0, 1, 1, 0, 1, 1, 0, 3, 2, 0, 0],
    [1, 2, 0, 1, 0, 0, 0, 1, 2, 1, 1, 0],
]


def test_thresholds_are_those_of_poisson() -> None:
    probability = [math.exp(-1) / math.factorial(k) for k in range(len(THRESHOLDS))]
    exact = np.cumsum(probability) * 2**32
    assert np.abs(np.array(THRESHOLDS) - exact).max() <= 1.001
    assert LARGEST_WEIGHT == 12


def test_weights_have_the_shares_of_poisson() -> None:
    """20,000 samples in 50 replicates: a million draws, each share within five standard deviations."""
    drawn = weights(hash_column(np.arange(20_000)), 50, seed=3)
    for weight in range(6):
        share = math.exp(-1) / math.factorial(weight)
        assert abs((drawn == weight).mean() - share) < 5 * math.sqrt(share * (1 - share) / drawn.size)
    # Replicates, and neighbouring samples, have nothing to do with each other.
    assert np.abs(np.corrcoef(drawn) - np.eye(50)).max() < 5 / math.sqrt(20_000)
    centred = drawn - 1.0
    assert abs((centred[:, 1:] * centred[:, :-1]).mean()) < 5 / math.sqrt(drawn.size)


def test_a_weight_depends_on_seed_replicate_and_key_alone() -> None:
    keys = hash_column(np.arange(100))
    drawn = weights(keys, 7, seed=5)
    assert np.array_equal(weights(keys[::-1], 7, seed=5), drawn[:, ::-1])
    assert np.array_equal(weights(keys[3:4], 4, seed=5), drawn[:4, 3:4])
    assert not np.array_equal(weights(keys, 7, seed=6), drawn)


def test_weights_are_what_they_have_always_been() -> None:
    """Replicates of today are paired with those of an evaluation of years ago."""
    assert weights(hash_column(np.arange(12)), 3, seed=0).tolist() == WEIGHTS


def test_keys() -> None:
    first, second, third = keys_of("id", np.array(["a", "b", "a"], dtype=object)).tolist()
    assert first == third != second
    with pytest.raises(InputError, match=r"key column 'id' has values of type float64, shape \[3\]; allowed are"):
        keys_of("id", np.zeros(3))


def drawn_one_by_one(counts: Counts, drawn: np.ndarray, size: int) -> np.ndarray:
    expected = np.zeros((len(drawn), size), dtype=np.int64)
    if not len(counts.cells):
        return expected
    cells = counts.cells.reshape(len(counts.cells), -1)
    amounts = np.ones_like(cells) if counts.amounts is None else counts.amounts.reshape(cells.shape)
    for replicate, weight in enumerate(drawn):
        np.add.at(expected[replicate], cells.ravel(), (amounts * weight[:, np.newaxis].astype(np.int64)).ravel())
    return expected


@settings(max_examples=60, deadline=None)
@given(
    num_samples=st.integers(0, 40),
    width=st.sampled_from([0, 1, 2, 5]),
    size=st.sampled_from([1, 3, 30, 300, 5000]),
    largest=st.sampled_from([None, 1, 2**32]),
    seed=st.integers(0, 2**32),
)
def test_counts_are_added_as_often_as_they_are_drawn(
    num_samples: int, width: int, size: int, largest: int | None, seed: int
) -> None:
    random = np.random.default_rng(seed)
    shape = (num_samples, width) if width else (num_samples,)
    amounts = None if largest is None else random.integers(-largest, largest, shape, endpoint=True)
    counts = Counts(random.integers(0, size, shape), amounts)
    drawn = weights(hash_column(np.arange(num_samples)), 5, seed)
    into = random.integers(-9, 9, (5, size))
    before = into.copy()
    add_weighted(into, counts, drawn)
    assert np.array_equal(into - before, drawn_one_by_one(counts, drawn, size))


def test_sums_beyond_what_a_float_has_are_exact() -> None:
    """2**19 limbs of nearly 2**32 each: added up at once, float64 would round them."""
    values = np.full(2**18, 2.0 - 2**-52)
    drawn = weights(hash_column(np.arange(len(values))), 2, seed=0)
    into = np.zeros((2, exact_sum.SIZE), dtype=np.int64)
    add_weighted(into, exact_sum.spread(values), drawn)
    for cells, weight in zip(into, drawn, strict=True):
        assert exact_sum.total(cells) == int(weight.sum()) * Fraction(values[0])
    with pytest.raises(InputError, match="that is too much"):
        add_weighted(np.zeros((2, 3), np.int64), Counts(np.zeros(4, np.int64), np.full(4, 2**62)), drawn[:, :4])
