"""Sums that are exact: against fractions and math.fsum, in any order and any parts."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.training.metric_states.numbers import exact_sum

numbers = st.floats(allow_nan=False, allow_infinity=False)
LARGEST, SMALLEST = sys.float_info.max, 5e-324


def count(values: np.ndarray) -> np.ndarray:
    counts = exact_sum.spread(values)
    assert counts.amounts is not None
    assert counts.cells.shape == counts.amounts.shape
    assert counts.cells.size == 0 or 0 <= counts.cells.min() <= counts.cells.max() < exact_sum.SIZE
    assert np.abs(counts.amounts).max(initial=0) <= 2**32
    cells = np.zeros(exact_sum.SIZE, dtype=np.int64)
    np.add.at(cells, counts.cells.ravel(), counts.amounts.ravel())
    return cells


@given(st.lists(numbers, max_size=30), st.integers(0, 30), st.randoms())
def test_a_sum_is_exact_in_any_order_and_any_parts(values: list[float], cut: int, random: object) -> None:
    cells = count(np.array(values, dtype=np.float64))
    expected = sum(map(Fraction, values), Fraction(0))
    assert exact_sum.total(cells) == expected
    random.shuffle(values)  # type: ignore[attr-defined]
    parts = count(np.array(values[:cut], dtype=np.float64)) + count(np.array(values[cut:], dtype=np.float64))
    assert np.array_equal(parts, cells)
    exact_sum.settle(cells)
    assert exact_sum.total(cells) == expected
    assert cells[:-1].min() >= 0
    assert cells[:-1].max() < 2**32


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=30))
def test_a_mean_is_correctly_rounded(values: list[float]) -> None:
    cells = count(np.array(values))
    assert exact_sum.mean(cells, 1) == math.fsum(values)
    assert exact_sum.mean(cells, len(values)) == float(sum(map(Fraction, values)) / len(values))


@given(st.lists(st.tuples(numbers, numbers), max_size=20))
def test_several_values_of_a_sample_are_one_sum(pairs: list[tuple[float, float]]) -> None:
    values = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    counts = exact_sum.spread(values)
    assert counts.cells.shape == (len(values), 6)
    assert exact_sum.total(count(values)) == sum((Fraction(value) for pair in pairs for value in pair), Fraction(0))


def test_the_extremes() -> None:
    values = [LARGEST] * 100 + [SMALLEST, -SMALLEST * 3, -0.0, 1.0]
    assert exact_sum.total(count(np.array(values))) == sum(map(Fraction, values))
    negative = count(-np.array(values))
    exact_sum.settle(negative)
    assert exact_sum.total(negative) == -sum(map(Fraction, values))
    assert exact_sum.total(count(np.zeros(0))) == 0
    with pytest.raises(OverflowError):
        exact_sum.mean(count(np.array([LARGEST, LARGEST])), 1)


def test_settled_limbs_have_room_for_very_many_samples() -> None:
    """As many samples as fit between two settlings, 1,000 times over: some billions."""
    once = count(np.array([-LARGEST, 1 / 3, -1e-300]))
    cells, repeats = np.zeros(exact_sum.SIZE, dtype=np.int64), 2**30
    for _ in range(1000):
        cells += once * repeats
        exact_sum.settle(cells)
    expected = (Fraction(-LARGEST) + Fraction(1 / 3) + Fraction(-1e-300)) * repeats * 1000
    assert exact_sum.total(cells) == expected


small = st.floats(-(2.0**511), 2.0**511, exclude_min=True, exclude_max=True).filter(
    lambda x: x == 0 or abs(x) > 2.0**-480
)


@given(st.lists(st.tuples(small, small), min_size=1, max_size=20))
def test_products_are_exact(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    high, low = exact_sum.products(a, b)
    for x, y, rounded, error in zip(a, b, high, low, strict=True):
        assert Fraction(rounded) + Fraction(error) == Fraction(x) * Fraction(y)
        assert rounded == x * y


def test_tiny_products_lose_less_than_the_smallest_number() -> None:
    values = np.array([1e-160, -3e-162, 1.234e-155])
    for x, rounded, error in zip(values, *exact_sum.products(values, values), strict=True):
        assert abs(Fraction(rounded) + Fraction(error) - Fraction(x) ** 2) <= 4 * Fraction(SMALLEST)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_nonfinite_values_are_refused(wrong: float) -> None:
    with pytest.raises(InputError, match=rf"value {wrong} of sample 2 \(1 such of 3\)"):
        exact_sum.spread(np.array([1.0, 2.0, wrong]))
    with pytest.raises(InputError, match="of sample 1 "):
        exact_sum.spread(np.array([[1.0, 2.0], [1.0, wrong]]))
    with pytest.raises(InputError, match="of sample 0 "):
        exact_sum.products([wrong], [1.0])


def test_factors_whose_square_overflows_are_refused() -> None:
    with pytest.raises(InputError, match=r"-1e\+200\D.*allowed are magnitudes below 6.7e\+153"):
        exact_sum.products([1.0, -1e200], [1.0, 1.0])
    with pytest.raises(InputError, match="allowed are magnitudes below"):
        exact_sum.products([2.0**511], [1.0])
    edge = np.nextafter(2.0**511, 0)
    high, low = exact_sum.products([edge], [edge])
    assert Fraction(high[0]) + Fraction(low[0]) == Fraction(edge) ** 2
