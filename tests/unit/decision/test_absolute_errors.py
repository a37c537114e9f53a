"""The median and the 90 % quantile of the absolute error of two models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from drivetrain.decision.absolute_errors import absolute_errors
from drivetrain.decision.deciding import Champion, decide
from drivetrain.decision.evaluation import Evaluation
from drivetrain.decision.page import About, page
from drivetrain.decision.policy import Policy
from drivetrain.decision.record import record
from drivetrain.decision.rows import Rows

Make = Callable[..., Evaluation]


def models(make: Make, ours: np.ndarray, theirs: np.ndarray) -> list[Evaluation]:
    bare = make({"loss": 0.5})
    return [replace(bare, evidence=Rows.of({}, means={"mae": np.abs(each)})) for each in (ours, theirs)]


@pytest.mark.slow_cases("normal")
@pytest.mark.parametrize("tail", ["normal", "heavy"])
def test_intervals_cover_the_difference_for_any_tail(evaluation: Make, tail: str) -> None:
    """400 draws of 200 rows: 0.93 is 3 deviations above what may be, 0.90."""
    random = np.random.default_rng(1)
    holds = np.zeros(2)
    many = random.standard_normal(300_000) if tail == "normal" else random.standard_cauchy(300_000)
    other = 0.9 * many * random.choice([0.9, 1 / 0.9], len(many))
    truths = [float(np.quantile(abs(other), share) - np.quantile(abs(many), share)) for share in (0.5, 0.9)]
    for _ in range(400):
        errors = random.standard_normal(200) if tail == "normal" else random.standard_cauchy(200)
        ours, theirs = models(evaluation, 0.9 * errors * random.choice([0.9, 1 / 0.9], 200), errors)
        for place, one in enumerate(absolute_errors(ours, theirs, 0.95)):
            assert one.low is not None and one.high is not None
            holds[place] += one.low <= truths[place] <= one.high
    assert (holds / 400 >= 0.93).all()


def test_absolute_errors_are_recorded(evaluation: Make) -> None:
    errors = np.random.default_rng(0).standard_normal(360)
    ours, theirs = models(evaluation, 0.5 * errors, errors)
    decided = decide(ours, Champion(version=1, content_hash="", evaluation=theirs), Policy(metric="loss"))
    about = About(group="g", registry="local", candidate_hash="")
    median, far = record(decided, about)["absolute_error"]
    assert median["candidate"] == pytest.approx(median["champion"] / 2) and median["low"] < median["high"] < 0
    assert far["name"] == "quantile_90" and far["high"] < 0
    assert "| quantile 90 | " in page(decided, about)
    assert "absolute_error" not in record(decide(ours, None, Policy(metric="loss")), about)


def test_shared_keys_or_few_rows_give_no_interval(evaluation: Make) -> None:
    errors = np.random.default_rng(0).standard_normal(30)
    ours, theirs = models(evaluation, 0.5 * errors, errors)
    median, far = absolute_errors(ours, theirs, 0.95)
    assert median.low is not None and far.low is None
    keyed = replace(ours, groups={"": replace(ours.whole, num_keys=9.0)})
    assert [one.low for one in absolute_errors(keyed, theirs, 0.95)] == [None, None]
    assert absolute_errors(evaluation({"loss": 0.5}), theirs, 0.95) == ()
