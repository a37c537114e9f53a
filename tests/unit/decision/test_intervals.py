"""Intervals of differences, held against scipy, against exact enumeration, and against simulated truths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from drivetrain.decision.intervals import FEWEST_REPLICATES, Estimate, of_mean, of_replicates, of_share, reach, rejected
from drivetrain.decision.noninferiority import most_lost


@pytest.mark.parametrize("level", [0.025, 1e-3, 0.05 / 365])
@pytest.mark.parametrize("degrees", [49, 199, 1999, math.inf])
def test_students_distribution_is_scipys(level: float, degrees: float) -> None:
    expected = stats.norm.ppf(1 - level) if math.isinf(degrees) else stats.t.ppf(1 - level, degrees)
    assert reach(level, degrees) == pytest.approx(expected, rel=1e-2)
    assert reach(0.025, 0) == math.inf


@pytest.mark.parametrize("skewness", [-0.8, 0.0, 0.3])
@pytest.mark.parametrize("degrees", [60.0, math.inf])
def test_the_p_value_is_the_level_where_the_interval_ends(skewness: float, degrees: float) -> None:
    found = Estimate(center=0.3, error=0.1, degrees=degrees, skewness=skewness, method="")
    for level in (0.4, 0.025, 1e-4):
        assert found.chance(found.low(level)) == pytest.approx(level, rel=1e-4)
        assert found.reversed.low(level) == pytest.approx(-found.high(level))
    certain = Estimate(center=0.3, error=0.0, method="")
    assert (certain.low(0.01), certain.high(0.01)) == (0.3, 0.3)
    assert (certain.chance(0.3), certain.chance(0.2)) == (1.0, 0.0)


def test_intervals_of_skewed_differences_are_longer_on_the_long_tail() -> None:
    straight, skewed = (
        Estimate(center=0.0, error=1.0, degrees=500, skewness=skewness, method="") for skewness in (0.0, 0.5)
    )
    # A long upper tail hides large values: the upper end moves, and the lower one does not come nearer.
    assert skewed.high(0.025) > 1.2 * straight.high(0.025) and skewed.low(0.025) == straight.low(0.025)


@pytest.mark.slow_cases("357-0.02-0.02", "357-0.04-0.03")
@pytest.mark.parametrize(("won", "lost"), [(0.0, 0.0), (0.06, 0.0), (0.02, 0.02), (0.04, 0.03)])
@pytest.mark.parametrize("size", [50, 357])
def test_bonett_and_price_intervals_cover_the_truth_by_enumeration(size: int, won: float, lost: float) -> None:
    holds = 0.0
    for wins in range(size + 1):
        p = stats.binom.pmf(wins, size, won)
        if p > 1e-9:
            losses = np.arange(size - wins + 1)
            chances = stats.binom.pmf(losses, size - wins, lost / (1 - won))
            for count in np.flatnonzero(chances > 1e-9):
                found = of_share(wins, int(count), size)
                holds += p * chances[count] * (found.low(0.025) <= won - lost <= found.high(0.025))
    assert holds >= 0.93


def test_the_interval_of_bonett_and_price() -> None:
    """(won + 1, lost + 1) of n + 2: their Wald interval, by hand."""
    found = of_share(12, 4, 98)
    p, q = 13 / 100, 5 / 100
    error = math.sqrt((p + q - (p - q) ** 2) / 100)
    assert (found.center, found.error) == pytest.approx((p - q, error))
    # Tango's score reaches further on both sides; of many rows neither does by much.
    assert found.low(0.025) == -most_lost(12, 4, 98, 0.025) < p - q - 1.959964 * error
    assert found.high(0.025) == most_lost(4, 12, 98, 0.025)
    many = of_share(1200, 400, 10_000)
    assert many.low(0.025) == pytest.approx(0.08 - 1.959964 * many.error, abs=5e-4)


@pytest.mark.parametrize("level", [0.025, 0.05 / 365])
def test_equal_models_are_found_better_at_most_at_the_level(level: float) -> None:
    """By enumeration, of few rows and many: Bonett and Price's interval alone is taken in up to 14 times as often."""
    for rows in (10, 20, 50):
        for differ in (0.1, 0.5):
            counts = np.arange(rows + 1)
            chances = stats.binom.pmf(counts, rows, differ)
            wrong = sum(
                chances[both] * stats.binom.pmf(won, both, 0.5)
                for both in counts[chances > 1e-9]
                for won in range(both // 2, both + 1)
                if of_share(won, both - won, rows).low(level) > 0
            )
            assert wrong <= level, (rows, differ)


@pytest.mark.parametrize("tail", ["normal", "skewed"])
def test_the_interval_of_a_mean_covers_the_truth(tail: str) -> None:
    """400 draws of 200 rows: 0.93 is 3 deviations above what may be, 0.90."""
    random = np.random.default_rng(3)
    holds = 0
    for _ in range(400):
        rows = random.standard_normal(200) if tail == "normal" else 1 - random.exponential(size=200)
        found = of_mean(float(rows.mean()), rows)
        assert found is not None
        holds += found.low(0.025) <= 0 <= found.high(0.025)
    assert holds / 400 >= 0.93


def test_a_skewed_loss_does_not_look_better_by_its_skewness() -> None:
    """Models of equal mean loss: the candidate is mostly a little better, and now and then much worse."""
    level, size = 0.001, 200
    gains = 1 - np.random.default_rng(3).exponential(size=(20_000, size))
    deviations = gains.std(axis=1, ddof=1) / math.sqrt(size)
    by_t = float((gains.mean(axis=1) / deviations > stats.t.ppf(1 - level, size - 1)).mean())
    found = [of_mean(float(row.mean()), row) for row in gains if row.mean() > 0.1]
    surely = sum(one is not None and one.low(level) > 0 for one in found) / len(gains)
    assert by_t > 3 * level and surely <= 2 * level


def test_the_influence_of_one_row_widens_the_interval() -> None:
    """On few rows that differ, as on none: rows that did not occur."""
    rows = np.zeros(100)
    assert of_mean(0.0, rows) is None and of_mean(0.0, rows[:0]) is None
    found = of_mean(0.0, rows, most=1.0)
    assert found is not None and found.error == pytest.approx(math.sqrt(2) / 100)
    rows[0] = 1e200  # whose square is no 64-bit number
    huge = of_mean(1e198, rows)
    assert huge is not None and 1e198 < huge.error < 3e198 and math.isfinite(huge.low(0.025))


def test_the_number_of_replicates_bounds_the_evidence() -> None:
    ours, theirs = [0.9 + 0.001 * number for number in range(100)], [0.9] * 100
    found = of_replicates(0.05, ours, theirs, units=1000)
    assert found is not None and found.degrees == 99
    assert found.error == pytest.approx(np.std(np.arange(100) * 0.001, ddof=1))
    few = of_replicates(0.05, ours, theirs, units=20)
    assert few is not None and few.degrees == 19 and few.low(0.025) < found.low(0.025)
    assert of_replicates(0.05, [*ours[:49], *[None] * 51], theirs, units=1000) is None
    far = of_replicates(0.0, [1e300, *[0.0] * 99], theirs, units=1000)
    assert far is not None and math.isfinite(far.error)


def test_holms_method() -> None:
    assert rejected([0.04, 0.3, 0.001, 0.012], 0.05) == [False, False, True, True]
    assert rejected([0.04, 0.011, 0.001, 0.012], 0.05) == [True] * 4
    assert rejected([], 0.05) == []


@pytest.mark.parametrize(("number", "is_enough"), [(FEWEST_REPLICATES, True), (FEWEST_REPLICATES - 1, False)])
def test_fifty_replicates_are_enough(number: int, is_enough: bool) -> None:
    ours = np.random.default_rng(0).normal(0.9, 0.01, number).tolist()
    assert (of_replicates(0.1, ours, [0.8] * number, 300) is not None) is is_enough
