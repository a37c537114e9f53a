"""Two models on the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.nights import by_rows
from drivetrain.decision.row_forms import Average, Is, Mean, Ranking, Share
from drivetrain.decision.rows import Rows, check_same, check_shares, paired, won_lost

TARGET = np.array([1, 1, 1, 1, 0, 0, 0, 0])
OURS, THEIRS = np.array([1, 1, 1, 0, 1, 0, 0, 0]), np.array([1, 0, 0, 1, 0, 0, 0, 0])
KEYS = np.array([7, 7, 7, 9, 9, 5, 5, 5], np.uint64)
NORTH = np.array([True, True, False, True] * 2)


def rows(predicted: np.ndarray, scores: np.ndarray | None = None) -> Rows:
    target, claimed = Is(0), Is(1)
    return Rows(
        keys=KEYS,
        keyed=True,
        columns=[TARGET, predicted, predicted if scores is None else scores],
        slices={"site=north": (NORTH, 1)},
        forms={
            "recall": Share((claimed,), (target,)),
            "precision": Share((target,), (claimed,)),
            "f1": Share((target, claimed), (target, claimed), "twice"),
            "auroc": Ranking(2, target),
            "mse": Mean(2),
        },
    )


def test_only_the_rows_of_a_class_win_and_lose_its_recall() -> None:
    ours, theirs = rows(OURS), rows(THEIRS)
    assert won_lost(ours, theirs, "recall") == (2, 1, 4)
    assert won_lost(ours, theirs, "recall", "site=north") == (1, 1, 3)
    for metric in ("precision", "f1", "auroc", "mse", "mcc"):  # each model has a denominator of its own, or none
        assert won_lost(ours, theirs, metric) is None


@pytest.mark.parametrize("by_keys", [False, True])
@pytest.mark.parametrize("metric", ["recall", "precision", "f1", "auroc", "mse"])
def test_row_differences_have_the_mean_and_deviation_of_the_metric(metric: str, by_keys: bool) -> None:
    """That of dropping one row, or one key, after the other: the infinitesimal jackknife against the jackknife."""
    random = np.random.default_rng(3)
    n = 600
    target = random.random(n) < 0.4
    keys = random.integers(0, n // 3 if by_keys else 1 << 60, n).astype(np.uint64)
    models = [np.where(random.random(n) < share, target, ~target) for share in (0.8, 0.7)]
    forms = rows(OURS).forms

    def measured(kept: np.ndarray, found: np.ndarray) -> Rows:
        scores = found + np.linspace(0, 0.9, n)
        columns = [column[kept] for column in (target, found, scores)]
        return Rows(keys=keys[kept], keyed=True, columns=columns, forms=forms)

    def difference(kept: np.ndarray) -> float:
        ours, theirs = (measured(kept, found).values(metric) for found in models)
        assert ours is not None and theirs is not None
        return float(ours.mean() - theirs.mean())

    everything = np.ones(n, bool)
    found = paired(measured(everything, models[0]), measured(everything, models[1]), metric, by_keys=by_keys)
    assert found is not None
    units = np.unique(keys)
    without = np.array([difference(keys != key) for key in units])
    expected = np.sqrt((len(units) - 1) * without.var())
    assert found.differences.mean() == pytest.approx(difference(everything))
    assert found.differences.std(ddof=1) / np.sqrt(len(found.keys)) == pytest.approx(expected, rel=0.02)
    assert set(found.keys) <= set(units) and found.sizes.sum() <= n


def test_other_rows_are_refused() -> None:
    ours = rows(OURS)
    check_same(ours, rows(THEIRS))
    for others in (replace(ours, keys=KEYS[::-1]), replace(ours, slices={})):
        with pytest.raises(InputError, match="have different keys or slices"):
            check_same(ours, others)


def test_a_share_of_uncounted_rows_is_refused() -> None:
    check_shares(rows(OURS), {"recall": 0.75, "precision": 0.75, "mse": 9.0, "mcc": 9.0})
    with pytest.raises(ValueError, match=r"recall is 0.5, and 0.75 of the rows that it is a share of: .* disagree"):
        check_shares(rows(OURS), {"recall": 0.5})


@pytest.mark.parametrize("of_class", ["average", "auroc"])
def test_a_class_of_one_row_gives_no_evidence(of_class: str) -> None:
    """The candidate has the one row of class 1 right, and the champion has not: half of a balanced accuracy."""
    target = np.arange(500) == 0
    scores = [np.where(target, at, np.arange(500) / 500) for at in (2.0, -1.0)]
    right = [np.ones(500, bool), ~target]
    for each, place in zip(right, (10, 20), strict=True):
        each[place : place + 4] = False
    average = Average((Share((Is(1),), (Is(0, 0),)), Share((Is(1),), (Is(0),))), ((Is(0, 0),), (Is(0),)))
    ours, theirs = (
        Rows(
            keys=np.arange(500, dtype=np.uint64),
            keyed=False,
            columns=[target, each, score],
            forms={"average": average, "auroc": Ranking(2, Is(0))},
        )
        for each, score in zip(right, scores, strict=True)
    )
    pairs = paired(ours, theirs, of_class, centered=False)
    assert pairs is not None
    parts = pairs.differences / len(pairs.keys)
    gain = 1.0 if of_class == "auroc" else 0.5
    assert (parts.sum(), parts[0]) == (pytest.approx(gain), pytest.approx(gain))
    assert not by_rows(parts[None], [gain], 0.0125).is_better


@pytest.mark.parametrize("by_keys", [True, False])
@pytest.mark.parametrize("metric", ["recall", "precision", "f1", "auroc", "mse"])
def test_uncentered_row_differences_sum_to_the_difference(metric: str, by_keys: bool) -> None:
    scores = np.arange(8.0)
    ours, theirs = rows(OURS, scores), rows(THEIRS, scores[::-1].copy())
    pairs = paired(ours, theirs, metric, by_keys=by_keys, centered=False)
    own, other = (each.said(metric) for each in (ours, theirs))
    assert pairs is not None and own is not None and other is not None
    assert pairs.differences.mean() == pytest.approx(own.value - other.value)
