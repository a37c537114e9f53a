"""Nights against nights: the bound, the verdicts, and what they cost nights that are in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from drivetrain.base.errors import InputError
from drivetrain.decision.data_bounds import Nights, Settings, judge, power, replayed
from drivetrain.decision.data_scales import KINDS
from drivetrain.decision.data_sizes import Limit, size

ROWS = 1000.0


def nights(values: Any, *kinds: str, rows: Any = ROWS, first_weekday: int = 0) -> Nights:
    values = np.asarray(values, float)
    values = values.reshape(len(values), len(kinds), -1)
    return Nights(
        values=values,
        kinds=kinds,
        rows=np.broadcast_to(np.asarray(rows, float), len(values)).copy(),
        weekdays=(np.arange(len(values)) + first_weekday) % 7,
    )


def drawn(count: int = 61, columns: int = 1, kind: str = "number", seed: int = 0) -> Nights:
    return nights(np.random.default_rng(seed).normal(10, 1, (count, columns)), kind)


def with_tonight(given: Nights, value: float) -> Nights:
    values = given.values.copy()
    values[-1] = value
    return replace(given, values=values)


def test_bounds_are_the_prediction_intervals_of_each_column_alone() -> None:
    """A plain loop over statistics and columns, with nights left out, and scipy's t."""
    random = np.random.default_rng(1)
    given = random.normal(0, 1, (21, 4, 5))  # fewer nights than weekdays need
    given[:, 0], given[:, 1], given[:, 2] = (
        random.poisson(400, (21, 5)),
        random.beta(2, 20, (21, 5)),
        np.exp(given[:, 2]),
    )
    given[random.random(given.shape) < 0.1] = np.nan
    given[-1, 3, 0] = np.nan
    rows = random.integers(500, 2000, 21).astype(float)
    found = judge(nights(given, *KINDS, rows=rows))
    level = 4 / 365 / (~np.isnan(given[-1])).sum() / 2
    for place, kind in enumerate(KINDS):
        for column in range(5):
            if np.isnan(given[-1, place, column]):
                assert np.isnan(found.p[place, column]) and not found.warned[place, column]
                continue
            kept = ~np.isnan(given[:, place, column])
            n, values = rows[kept], given[kept, place, column]
            y = on_scale(kind, values, n)
            before, tonight = y[:-1], y[-1]
            noise = {"count": 1.0, "share": float(np.mean(1 / n[:-1]))}.get(kind, 0.0)
            more = max(1 / n[-1] - noise, 0) if kind == "share" else 0.0
            sd = np.sqrt(max(before.var(ddof=1), noise) + more)
            spread = np.sqrt(1 + 1 / len(before))
            assert found.sd[place, column] == pytest.approx(sd)
            assert found.distance[place, column] == pytest.approx((tonight - before.mean()) / sd)
            assert found.reach[place, column] == pytest.approx(stats.t.isf(level, len(before) - 1) * spread)
            if not found.fit.lag[place, column]:
                p = 2 * stats.t.sf(abs(tonight - before.mean()) / sd / spread, len(before) - 1)
                assert found.p[place, column] == pytest.approx(p, abs=1e-12)
            assert found.low[place, column] < found.expected[place, column] < found.high[place, column]


def on_scale(kind: str, values: Any, n: Any) -> Any:
    if kind == "count":
        return 2 * np.sqrt(values + 0.375)
    if kind == "share":
        return 2 * np.arcsin(np.sqrt((values * n + 0.375) / (n + 0.75)))
    return np.log(values) if kind == "positive" else values


@pytest.mark.parametrize(("kind", "values"), [("count", 400.0), ("share", 0.2), ("positive", 3.0), ("number", -5.0)])
def test_the_ends_of_a_bound_are_the_values_that_warn_no_more(kind: str, values: float) -> None:
    random = np.random.default_rng(5)
    given = nights(values * (1 + 0.05 * random.standard_normal(31)), kind)
    found = judge(given)
    for end, inside in ((float(found.low[0, 0]), 1e-6), (float(found.high[0, 0]), -1e-6)):
        assert not judge(with_tonight(given, end + inside)).warned.any()
        assert judge(with_tonight(given, end - inside)).warned.all()


def test_a_value_fails_beyond_all_nights_by_their_whole_range_again() -> None:
    given = drawn()
    values = given.values[:-1, 0, 0]
    others = values + (values - values.mean()) / (len(values) - 1)  # each from the mean of the others
    far = others.max() + (others.max() - others.min())
    inside, outside = judge(with_tonight(given, far - 0.01)), judge(with_tonight(given, far + 0.01))
    assert inside.columns_warned.all() and not inside.columns_failed.any()
    assert outside.columns_failed.all()
    assert judge(with_tonight(given, 9.9)).columns_warned.tolist() == [False]


def test_a_value_that_an_accepted_night_had_is_not_warned_of_again() -> None:
    given = with_tonight(drawn(), 30.0)
    assert judge(given).columns_warned.all()
    again = nights(np.concatenate([given.values, given.values[-1:]]), "number")
    assert not judge(again).columns_warned.any()


def test_weekdays_have_their_own_expected_value_where_they_differ() -> None:
    given = drawn(64)
    given.values[given.weekdays > 4] -= 8
    sunday = nights(given.values[:63], "number")  # the last one is a Sunday
    found = judge(sunday)
    assert found.fit.weekday.all() and found.expected[0, 0] == pytest.approx(2, abs=1) and not found.warned.any()
    assert judge(with_tonight(sunday, 10.0)).columns_failed.all()
    monday = judge(with_tonight(given, 2.0))
    assert monday.columns_failed.all() and monday.fit.degrees[0, 0] == 63 - 7
    assert not judge(drawn(64)).fit.weekday.any()


def test_weekdays_without_any_variance_are_told_apart() -> None:
    week = nights(np.tile([7.0, 7, 7, 7, 7, 1, 2], 9)[:57], "number")
    assert not judge(week).warned.any() and judge(with_tonight(week, 1.0)).warned.all()


def test_a_bound_reaches_further_where_nights_rise() -> None:
    given = drawn(61)
    rising = nights(given.values[:, 0, 0] + 0.05 * np.arange(61), "number")
    found = judge(rising)
    level, rising_on = found.fit.center[0, 0] + found.reach[0, 0] * found.sd[0, 0], 0.05 * 30.5
    assert found.high[0, 0] == pytest.approx(level + rising_on, abs=0.5)
    assert found.low[0, 0] == pytest.approx(found.fit.center[0, 0] - found.reach[0, 0] * found.sd[0, 0])


def test_chance_alone_never_warns_of_rare_counts_and_shares() -> None:
    random = np.random.default_rng(3)
    counts, shares = random.poisson(0.05, (90, 100)), random.binomial(1000, 0.0001, (90, 100)) / 1000
    found = replayed(nights(np.stack([counts, shares], axis=1), "count", "share"), last=30)
    assert found[0].sum() == 0 == found[1].sum()


def test_fewer_rows_tonight_widen_the_bound_of_a_share() -> None:
    shares = np.zeros((61, 1)) + 0.02
    many, few = (judge(nights(shares, "share", rows=np.r_[np.full(60, 1e6), rows])) for rows in (1e6, 50.0))
    assert many.high[0, 0] < 0.022 and few.high[0, 0] > 0.09 and not few.warned.any()
    long_before = judge(nights(np.zeros((61, 1)), "share", rows=np.r_[np.full(60, 50.0), 1e6]))
    assert not long_before.warned.any()


def test_a_share_that_moved_by_less_than_a_point_stops_no_night() -> None:
    shares = np.zeros((61, 1))
    shares[-1] = 0.009
    found = judge(nights(shares, "share", rows=1e6))
    assert found.warned.all() and not found.failed.any()
    shares[-1] = 0.011
    assert judge(nights(shares, "share", rows=1e6)).failed.all()


@pytest.mark.parametrize(("kind", "failed"), [("number", False), ("positive", False), ("count", True)])
def test_a_statistic_that_never_varied_warns_when_it_changes(kind: str, failed: bool) -> None:
    same = nights(np.full(31, 50.0), kind)
    assert not judge(same).warned.any() and judge(same).expected[0, 0] == pytest.approx(50, rel=1e-2)
    if kind == "positive":  # histories keep them in 32 bits
        assert not judge(with_tonight(same, float(np.nextafter(np.float32(50), np.float32(60))))).warned.any()
    found = judge(with_tonight(same, 500.0))
    assert found.warned.all() and found.failed.all() == failed


def test_a_spread_that_vanishes_fails() -> None:
    assert judge(with_tonight(drawn(kind="positive"), 0.0)).failed.all()


def test_few_nights_give_no_verdict_but_that_of_a_limit() -> None:
    few = with_tonight(drawn(8), 1e6)
    found = judge(few)
    assert found.few.all() and not found.warned.any() and np.isnan(found.low).all()
    limited = judge(few, limits={(0, 0): Limit(fail=size("x10", ""))})
    assert limited.failed.all() and limited.limited.all() and limited.warned.all()
    assert judge(with_tonight(drawn(9), 1e6)).failed.all()


def test_a_limit_needs_no_bound() -> None:
    given = with_tonight(drawn(), 12.0)
    limit = Limit(warn=size("+1", ""), fail=size("30 %", ""))
    found = judge(given, limits={(0, 0): limit})
    assert found.warned.all() and found.limited.all() and not found.failed.any()
    assert judge(with_tonight(given, 14.0), limits={(0, 0): limit}).failed.all()


def test_new_and_missing_columns() -> None:
    given = drawn(31, columns=5).values
    given[:-1, :, 0] = np.nan  # new
    given[-1, :, 1] = np.nan  # gone
    given[-1, :, 2] = given[4, :, 2] = np.nan  # was missing before
    given[:10, :, 3] = given[-1, :, 3] = np.nan  # new some time ago, gone
    found = judge(nights(given, "number"))
    assert found.new.tolist() == [True, False, False, False, False]
    assert found.gone.tolist() == [False, True, False, True, False]
    assert found.columns_warned.tolist() == found.gone.tolist() and not found.columns_failed.any()


def test_without_history_nothing_is_judged() -> None:
    found = judge(drawn(1, columns=2))
    assert found.new.all() and not found.columns_warned.any() and np.isnan(found.expected).all()
    assert [len(each) for each in replayed(drawn(5))] == [0, 0]


def test_settings_must_be_above_zero() -> None:
    with pytest.raises(InputError, match=r"warnings_a_year=0 is not allowed"):
        Settings(warnings_a_year=0)


@pytest.mark.parametrize("history", [15, 60])
def test_power_is_that_of_the_noncentral_t(history: int) -> None:
    given = with_tonight(drawn(history + 1, columns=30), 10.0)
    found = judge(given)
    spread = np.sqrt(1 + found.fit.lever)
    for shift in (4.0, 6.0, 8.0):
        exact = stats.nct.sf(found.reach / spread, found.fit.degrees, shift / spread)
        assert power(found, shift) == pytest.approx(exact, abs=0.01)
    assert found.moved_by(6.0) == pytest.approx(found.expected + 6 * found.sd)


@pytest.mark.parametrize(("history", "least"), [(30, 0.85), (60, 0.92)])
def test_false_warnings_and_found_shifts_are_as_rare_and_as_many_as_promised(history: int, least: float) -> None:
    """20,000 nights of one of 150 statistics, and as many shifts of 6 sd. `make bench ARGS="--only data_nights"` has
    other worlds, in order."""
    random, draws, share = np.random.default_rng(history), 20_000, 4 / 365 / 150
    given = nights(random.standard_normal((history + 1, draws)), "number", first_weekday=3)
    settings = Settings(warnings_a_year=365 * share * draws)
    found = judge(given, settings)
    assert stats.binom.sf(found.warned.sum() - 1, draws, share) > 0.001 and not found.failed.any()
    given.values[-1] += 6
    assert judge(given, settings).warned.mean() > least


def test_skewed_numbers_are_judged_by_their_root() -> None:
    """Rain a day: mostly none, and 20 once. On their own scale 60 is beyond that by the whole range again."""
    rain = np.zeros(61)
    rain[1::4], rain[30] = 2.0, 20.0
    given = with_tonight(nights(rain, "number"), 60.0)
    assert judge(given).scale.rooted.all() and judge(given).warned.all() and not judge(given).failed.any()
    assert judge(with_tonight(given, 100.0)).failed.all()
    assert judge(with_tonight(given, -32.0)).failed.all()
    assert judge(with_tonight(nights(rain - 1, "number"), 59.0)).failed.all()
