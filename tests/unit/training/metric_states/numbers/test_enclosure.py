"""Numbers between two others: whole numbers, so that what they enclose never gets out."""

from __future__ import annotations

from fractions import Fraction
from math import ulp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.training.metric_states.numbers.enclosure import UNIT, Enclosure, dot, fitting, mean, sum_of_ratios

FRACTIONS = st.fractions(0, 1000, max_denominator=10**9)


@settings(deadline=None, max_examples=50)
@given(FRACTIONS, FRACTIONS, FRACTIONS)
def test_a_bound_holds_for_all_that_is_enclosed(one: Fraction, two: Fraction, three: Fraction) -> None:
    low, true, high = sorted((one, two, three))
    value = Enclosure.of(low, high).value()
    assert abs(Fraction(value.value) - true) <= Fraction(value.bound) or value.value == float(true)
    # ... and is no wider than two roundings make it.
    roundings = Fraction(ulp(value.value)) + Fraction(ulp(value.bound)) + Fraction(2, UNIT)
    assert Fraction(value.bound) <= (high - low) / 2 + roundings


@settings(deadline=None, max_examples=50)
@given(FRACTIONS)
def test_what_is_known_has_no_bound(true: Fraction) -> None:
    assert Enclosure.of(true, true).value() == Enclosure.of(true, true).value(advice="none", wide=0)
    assert Enclosure.of(true, true).value().value == float(true)
    assert Enclosure.of(true, true).value().bound == 0


def test_advice_comes_with_a_wide_bound() -> None:
    enclosure = Enclosure.of(Fraction(1, 4), Fraction(1, 2))
    assert enclosure.value("look closer", wide=0.1).advice == "look closer"
    assert enclosure.value("look closer", wide=0.125).advice == ""


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(FRACTIONS, st.integers(0, 50)), min_size=1).filter(lambda pairs: any(w for _, w in pairs)))
def test_means(pairs: list[tuple[Fraction, int]]) -> None:
    numbers, weights = [number for number, _ in pairs], [weight for _, weight in pairs]
    enclosures = [Enclosure.of(number, number) for number in numbers]
    plain, weighted = mean(enclosures), mean(enclosures, weights)
    assert plain.low <= UNIT * sum(numbers) / len(numbers) <= plain.high <= plain.low + 2
    true = UNIT * sum(n * w for n, w in pairs) / sum(weights)
    assert weighted.low <= true <= weighted.high <= weighted.low + 2


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(1, 2**31 - 1))))
def test_sums_of_ratios(triples: list[tuple[int, int, int]]) -> None:
    tops = np.array([one * two for one, two, _ in triples], np.int64)
    bottoms = np.array([bottom for *_, bottom in triples], np.int64)
    true = sum((Fraction(int(top), int(bottom)) for top, bottom in zip(tops, bottoms, strict=True)), Fraction(0))
    found = sum_of_ratios(tops, bottoms)
    assert found.low <= true * UNIT <= found.high <= found.low + len(triples)
    assert found == sum_of_ratios(tops[::-1], bottoms[::-1])
    assert found == sum_of_ratios(tops.astype(object), bottoms.astype(object))


def test_more_ratios_than_are_added_up_at_once() -> None:
    tops, bottoms = np.arange(100_000), np.arange(1, 100_001)
    parts = [sum_of_ratios(tops[first::3], bottoms[first::3]) for first in range(3)]
    assert sum_of_ratios(tops, bottoms).low == sum(part.low for part in parts)


@pytest.mark.parametrize("largest", [1, 2**20, 2**31, 2**50])
def test_dots_are_exact(largest: int) -> None:
    first, second = np.array([largest, 3, largest - 1]), np.array([largest, largest, 7])
    assert dot(first, second) == largest**2 + 3 * largest + 7 * (largest - 1)
    assert dot(first[:0], second[:0]) == 0


def test_counts_of_which_products_would_overflow_become_whole_numbers_without_end() -> None:
    counts = np.array([2**31, 5])
    (small,), (large,) = fitting([counts], 2**31 - 1), fitting([counts], 2**31)
    assert small.dtype == np.int64 and large.dtype == object
    assert (large * large * large)[0] == 2**93
