"""A metric of one class is judged by the samples of that class: exactly, over all that may be won and lost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from drivetrain.decision.deciding import Champion, decide
from drivetrain.decision.evaluation import Evaluation, Group, Measured
from drivetrain.decision.policy import Policy
from drivetrain.decision.rows import Rows

ROWS = 500


def evaluation(found: np.ndarray, positives: int) -> Evaluation:
    """Of `ROWS` samples of which the first are positive, `found` of these [positives] rightly."""
    right, of = np.zeros(ROWS, bool), np.arange(ROWS) < positives
    right[:positives] = found
    value = Measured(value=float(found.mean()), higher_is_better=True)
    return Evaluation(
        source="report",
        groups={"": Group(num_samples=ROWS, metrics={"recall": value})},
        data_hash="",
        rows=ROWS,
        key=None,
        model_hash="",
        settings={},
        resampling=None,
        evidence=Rows.of({"recall": (right, of)}),
    )


@cache
def registered(won: int, lost: int, positives: int, conditions: Policy) -> bool:
    """Whether a candidate is that alone is right on `won` positive samples, and alone wrong on `lost`."""
    places = np.arange(positives)
    ours, theirs = places < won, (places >= won) & (places < won + lost)
    champion = Champion(version=1, content_hash="", evaluation=evaluation(theirs, positives))
    return decide(evaluation(ours, positives), champion, conditions).verdict == "register"


def outcomes(positives: int) -> Iterator[tuple[int, int]]:
    return ((won, lost) for won in range(positives + 1) for lost in range(positives + 1 - won))


def chance(won_by: float, lost_by: float, positives: int, conditions: Policy) -> float:
    """How often a candidate is registered that wins a sample, or loses it, with these probabilities."""
    total = 0.0
    for won, lost in outcomes(positives):
        if registered(won, lost, positives, conditions):
            ways = math.comb(positives, won) * math.comb(positives - won, lost)
            total += ways * won_by**won * lost_by**lost * max(0.0, 1 - won_by - lost_by) ** (positives - won - lost)
    return total


@pytest.mark.parametrize("horizon", [365, 4, 1])
@pytest.mark.parametrize("positives", [4, 5, 10, pytest.param(30, marks=pytest.mark.slow)])
def test_an_equal_recall_is_promoted_at_most_at_the_level(positives: int, horizon: int) -> None:
    conditions = Policy(metric="recall", horizon=horizon)
    for differs in (0.02, 0.1, 0.3, 0.5, 0.7, 0.85, 1.0):
        assert chance(differs / 2, differs / 2, positives, conditions) <= 1.05 * conditions.level, differs


def test_a_much_better_recall_is_found() -> None:
    assert registered(30, 2, 100, Policy(metric="recall"))


def test_a_handful_of_samples_cannot_prove_noninferiority() -> None:
    """A recall of 0.6 in truth against 0.9, of three samples."""
    for horizon in (1, 365):
        conditions = Policy(metric="recall", rule="not_worse", margin=0.05, horizon=horizon)
        assert chance(0.6 * 0.1, 0.4 * 0.9, 3, conditions) <= 0.05


@pytest.mark.parametrize("positives", [3, 10, pytest.param(30, marks=pytest.mark.slow)])
def test_a_loss_at_the_margin_passes_at_most_at_the_level(positives: int) -> None:
    conditions = Policy(metric="recall", rule="not_worse", margin=0.1, horizon=1)
    for won in (0.0, 0.02, 0.1, 0.3):
        assert chance(won, won + 0.1, positives, conditions) <= 0.05


def test_wins_and_losses_count_the_samples_of_the_class() -> None:
    ours, theirs = np.arange(60) < 40, (np.arange(60) >= 38) & (np.arange(60) < 45)
    champion = Champion(version=1, content_hash="", evaluation=evaluation(theirs, 60))
    found = decide(evaluation(ours, 60), champion, Policy(metric="recall"))
    assert "38 improved and 5 got worse of 60 samples" in " ".join(found.why)


def test_too_many_rows_to_keep_are_reported() -> None:
    ours, theirs = (
        replace(evaluation(found, 60), evidence=replace(Rows.of({"other": (found, None)}), left_out=("recall",)))
        for found in (np.arange(60) < 40, np.arange(60) < 30)
    )
    found = decide(ours, Champion(version=1, content_hash="", evaluation=theirs), Policy(metric="recall"))
    assert "What each row says of recall was too large to keep: the bootstrap's replicates decide." in found.why[0]
