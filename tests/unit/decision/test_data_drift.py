"""A batch against the training set: sizes of differences, and what their intervals hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from drivetrain.base.errors import InputError
from drivetrain.decision import data_drift
from drivetrain.decision.data_drift import MEAN_MOVED, NULLS_MOVED, SHARE_MOVED, Effect, Gate, Side, drift, gated

EDGES = np.r_[-np.inf, np.linspace(-2, 2, 19), np.inf]


def side(counts: Any, *, mean: float = 0.0, std: float = 1.0, nulls: float = 0.0) -> Side:
    counts = np.asarray(counts, float)
    one = np.ones(len(counts))
    return Side(counts=counts, means=mean * one, stds=std * one, nulls=nulls * one, rows=float(counts[0].sum() + nulls))


def drawn(rows: int, moved: float = 0.0, *, columns: int = 1000, seed: int = 0) -> Side:
    shares = np.diff(stats.norm.cdf(EDGES - moved))
    return side(np.random.default_rng(seed).multinomial(rows, shares, columns), mean=moved)


def test_the_share_moved_is_the_total_variation_for_many_rows() -> None:
    p, q = np.array([[0.5, 0.3, 0.2, 0.0]]), np.array([[0.2, 0.3, 0.2, 0.3]])
    found = drift(side(p * 1e9), side(q * 1e9))[SHARE_MOVED]
    assert [found.low[0], found.estimate[0], found.high[0]] == pytest.approx([0.3] * 3, abs=1e-4)


@pytest.mark.parametrize("rows", [100, 1000])
def test_the_estimate_does_not_grow_with_bins_as_the_plain_one_does(rows: int) -> None:
    batch, baseline = drawn(rows), drawn(100_000, seed=1)
    plain = np.abs(batch.counts / rows - baseline.counts / 1e5).sum(axis=1).mean() / 2
    assert plain > 1.6 / np.sqrt(rows) and drift(batch, baseline)[SHARE_MOVED].estimate.mean() < plain / 3


@pytest.mark.parametrize("rows", [500, 5000])
@pytest.mark.parametrize("world", ["equal", "two bins", "all bins", "far"])
def test_a_lower_end_exceeds_the_true_share_as_rarely_as_it_says(world: str, rows: int) -> None:
    """At 2.5 %, in 4,000 draws for each of 2, 8 and 30 bins."""
    random = np.random.default_rng([rows, len(world)])
    for bins in (2, 8, 30):
        q = 1 / np.arange(1, bins + 1)
        q /= q.sum()
        p = q.copy()
        if world == "two bins":
            p[:2] += [-0.1, 0.1]
        elif world == "all bins":
            p *= 1 + 0.2 * np.where(np.arange(bins) % 2, 1, -1)
            p /= p.sum()
        elif world == "far":
            p = p[::-1].copy()
        batch, baseline = random.multinomial(rows, p, 4000), random.multinomial(20_000, q, 4000)
        # One column at a time: 4,000 draws are no columns of one batch.
        low = _alone(batch, baseline).low
        exceeds = np.count_nonzero(low > np.abs(p - q).sum() / 2 + 1e-12)
        assert stats.binom.sf(exceeds - 1, 4000, 0.03) > 0.001, (bins, exceeds / 4000)


def _alone(batch: Any, baseline: Any) -> Effect:
    with np.errstate(all="ignore"):
        return data_drift._share_moved(batch.astype(float), baseline.astype(float), 0.025)  # pyright: ignore[reportPrivateUsage]


def test_intervals_of_1000_columns_hold_together() -> None:
    """In 2.5 % of batches the lower end of any column exceeds 0."""
    exceeded = 0
    for seed in range(0, 20, 2):
        exceeded += drift(drawn(500, seed=seed), drawn(5000, seed=seed + 1))[SHARE_MOVED].low.max() > 0
    assert exceeded <= 1


def test_harmless_days_pass_a_gate_at_a_million_rows_and_large_ones_do_not() -> None:
    baseline = drawn(1_000_000, seed=1)
    gates = {SHARE_MOVED: Gate(warn=0.1, fail=0.3), MEAN_MOVED: Gate(warn=0.25)}
    warned = {}
    for shift in (0.02, 0.5, 1.0):
        found = gated(drift(drawn(1_000_000, shift), baseline), gates)
        warned[shift] = [found[SHARE_MOVED][0].mean(), found[SHARE_MOVED][1].mean(), found[MEAN_MOVED][0].mean()]
    assert warned == {0.02: [0, 0, 0], 0.5: [1, 0, 1], 1.0: [1, 1, 1]}


def test_few_rows_of_the_baseline_count_too() -> None:
    batch = drawn(100_000, 0.5, columns=1)
    many, few = (drift(batch, drawn(rows, columns=1, seed=2))[SHARE_MOVED] for rows in (100_000, 60))
    assert many.low[0] > 0.18 and few.low[0] == 0


def test_a_moved_mean_is_in_standard_deviations_of_the_baseline() -> None:
    found = drift(side([[400]], mean=12, std=3), side([[900]], mean=10, std=4))[MEAN_MOVED]
    error = np.sqrt(9 / 16 / 400 + 1 / 900 + 0.25 / 1800)
    assert found.estimate[0] == pytest.approx(0.5)
    assert found.low[0] == pytest.approx(0.5 - stats.norm.isf(0.025) * error)
    assert found.surely[0] == found.low[0] and Effect(estimate=-found.estimate, low=-found.high, high=-found.low).surely
    assert np.isnan(drift(side([[400]]), side([[900]], std=0))[MEAN_MOVED].estimate).all()


def test_a_moved_share_of_nulls_has_newcombes_interval() -> None:
    """The example of the paper, 56 of 70 and 48 of 80: 0.0524 to 0.3339."""
    found = drift(side([[14]], nulls=56), side([[32]], nulls=48))[NULLS_MOVED]
    assert [found.estimate[0], found.low[0], found.high[0]] == pytest.approx([0.2, 0.0524, 0.3339], abs=1e-4)


def test_no_values_pass_every_gate() -> None:
    found = drift(side([[0, 0]]), side([[5, 5]]))
    assert np.isnan(found[SHARE_MOVED].estimate).all()
    assert not any(any(each) for each in gated(found, {name: Gate(fail=0.0001) for name in found})[SHARE_MOVED])


def test_wrong_sides_and_gates_are_refused() -> None:
    with pytest.raises(InputError, match=r"Count both in the baseline's bins"):
        drift(side([[1, 2]]), side([[1, 2, 3]]))
    with pytest.raises(InputError, match=r"confidence=1 is not allowed"):
        drift(side([[1]]), side([[1]]), 1.0)
    with pytest.raises(InputError, match=r"'psi' is no measure\. Allowed: share_moved"):
        gated(drift(side([[1]]), side([[1]])), {"psi": Gate(warn=0.1)})
