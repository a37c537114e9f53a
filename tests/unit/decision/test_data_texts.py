"""Verdicts as sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from drivetrain.decision.data_bounds import Nights, judge, power
from drivetrain.decision.data_drift import MEAN_MOVED, SHARE_MOVED, Effect
from drivetrain.decision.data_sizes import Limit, size
from drivetrain.decision.data_texts import drifted, replay, seen, sentence


def judged(before: Any, tonight: float, kind: str = "share", limit: Limit | None = None) -> Any:
    values = np.r_[np.asarray(before, float), tonight].reshape(-1, 1, 1)
    count = len(values)
    nights = Nights(values=values, kinds=(kind,), rows=np.full(count, 1e5), weekdays=np.arange(count) % 7)
    return judge(nights, limits={(0, 0): limit} if limit else {})


def test_a_sentence_has_the_value_the_nights_before_and_the_bound() -> None:
    before = np.tile([0.011, 0.014, 0.020, 0.016, 0.0125], 12)
    nulls = "nulls of age"
    assert sentence(judged(before, 0.12), 0, 0, nulls) == (
        "nulls of age: 12 % tonight; the last 60 nights had 1.1 % to 2 % (bound 2.38 %)"
    )
    assert sentence(judged(before, 0.015), 0, 0, nulls).endswith("(bounds 0.753 % to 2.38 %)")
    limit = Limit(warn=size("+0.2 points", ""), fail=size("+5 points", ""))
    for value, text in ((0.12, "(limit +5 points from 1.45 %)"), (0.017, "(limit +0.2 points from 1.45 %)")):
        assert sentence(judged(before, value, limit=limit), 0, 0, nulls, limit=limit).endswith(text)


def test_sentences_of_other_verdicts() -> None:
    def told(before: Any, tonight: float, kind: str = "count") -> str:
        return sentence(judged(before, tonight, kind), 0, 0, "rows", weekday=len(np.atleast_1d(before)) % 7)

    assert told([], 12000.0) == "rows: 12,000 tonight; no night before"
    assert told([900.0], 12000.0).startswith("rows: 12,000 tonight; the night before had 900 (too few nights")
    assert told([900.0] * 9, np.nan) == "rows: no value tonight; the last 9 nights had one"
    week = np.tile([1000.0, 1010, 990, 1005, 995, 200, 210], 5)
    assert ", Mondays about 1,000 (bound " in told(week, 210.0)


def test_power_and_replay_are_sentences() -> None:
    found = judged(np.tile([0.011, 0.014, 0.020, 0.016, 0.0125], 12), 0.015)
    chance = float(power(found, 6.0)[0, 0])
    assert seen(found, 0, 0, "nulls of age", 6.0, chance) == (
        "nulls of age: a night with 3.87 % (6 sd) warns with a probability of 100 %"
    )
    assert replay(0, 2, 60) == "On the last 60 nights: 0 would have failed, 2 warned."
    assert replay(0, 0, 0) == "No night to look back at: bounds begin with 8 nights."


def test_drift_is_a_sentence() -> None:
    effect = Effect(estimate=np.array([0.24, np.nan]), low=np.array([0.21, np.nan]), high=np.array([0.27, np.nan]))
    assert drifted(effect, 0, SHARE_MOVED, "rows of age that moved", 0.1) == (
        "rows of age that moved: 24 % (at least 21 %, at most 27 %; limit 10 %)"
    )
    assert drifted(effect, 0, MEAN_MOVED, "mean of age").startswith(
        "mean of age: +0.2400 standard deviations (at least"
    )
    assert "not defined" in drifted(effect, 1, SHARE_MOVED, "rows of x that moved")
