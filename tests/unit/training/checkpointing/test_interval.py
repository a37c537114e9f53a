from __future__ import annotations

import math
import random

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.interval import (
    Every,
    SaveCost,
    best_interval,
    daly,
    mean_time_between,
    parse_every,
    young,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto", Every()),
        ("epoch", Every(epoch=True)),
        ("200steps", Every(steps=200)),
        ("1step", Every(steps=1)),
        ("90s", Every(seconds=90.0)),
        ("10m", Every(seconds=600.0)),
        ("2h", Every(seconds=7200.0)),
        ("0.5h", Every(seconds=1800.0)),
    ],
)
def test_checkpoint_intervals_are_parsed(text: str, expected: Every) -> None:
    assert parse_every(text) == expected
    assert parse_every(text).is_auto == (text == "auto")


@pytest.mark.parametrize("text", ["", "0steps", "0s", "1.5steps", "10", "10d", "-5s", "epochs", "1e3s", "10 m m", "٣s"])
def test_invalid_intervals_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^checkpoint_every=.*; allowed are auto, epoch, or a number of steps"):
        parse_every(text)


def test_young() -> None:
    """The example of the paper's kind: saving takes 2 minutes, an interruption comes each day."""
    assert young(120, 86400) == pytest.approx(math.sqrt(2 * 120 * 86400))


@pytest.mark.parametrize("share", [1e-6, 1e-3, 1e-2, 0.1, 0.5])
def test_daly_is_the_optimum_of_the_exact_expected_time(share: float) -> None:
    """Daly's model of the whole time of a run with exponential interruptions (his equation 20), minimised by search."""
    mtbf, cost = 3600.0, 3600.0 * share

    def expected(compute: float) -> float:
        return mtbf * math.expm1((compute + cost) / mtbf) / compute

    times = [mtbf * 10 ** (-4 + 5 * number / 20000) for number in range(20001)]
    best = min(times, key=expected)
    assert expected(daly(cost, mtbf)) <= expected(best) * 1.002
    if share <= 1e-3:
        assert daly(cost, mtbf) == pytest.approx(young(cost, mtbf) - cost, rel=0.02)


def test_where_saving_takes_as_long_as_there_is_time() -> None:
    assert daly(10.0, 5.0) == 5.0
    assert daly(100.0, 5.0) == 5.0


def test_never_less_than_a_step_nor_than_a_save() -> None:
    assert best_interval(0.0, 3600.0, step_seconds=7.0) == 7.0
    assert best_interval(1e-9, 1.0, step_seconds=0.1, durable_seconds=5.0) == 5.0
    found = best_interval(1.0, 28800.0, step_seconds=0.1, durable_seconds=5.0)
    assert found == pytest.approx(young(1, 28800), rel=0.01)


def test_interruptions_that_come_more_often_than_was_thought() -> None:
    assert mean_time_between(8.0, 0.0, 0) == 8.0
    assert mean_time_between(8.0, 8.0, 3) == pytest.approx(3.0)
    assert mean_time_between(8.0, 8.0, 0) == pytest.approx(48.0)
    # Whatever was thought before, many of them tell.
    drawn = random.Random(7)
    gaps = [drawn.expovariate(1 / 600) for _ in range(400)]
    assert mean_time_between(28800.0, sum(gaps), len(gaps)) == pytest.approx(600, rel=0.2)


def test_the_cost_of_a_save_forgets_one_that_met_a_busy_disk() -> None:
    cost = SaveCost()
    assert (cost.is_known, cost.seconds) == (False, 0.0)
    for stall in (0.2, 0.2, 9.0):
        cost.add(stall, 2 * stall, slowdown=-1.0)
    assert (cost.is_known, cost.seconds, cost.durable_seconds) == (True, 0.2, 0.4)
    for _ in range(5):
        cost.add(0.5, 3.0, slowdown=0.25)
    assert (cost.seconds, cost.durable_seconds) == (0.75, 3.0)


def test_the_first_save_of_a_process_counts_until_there_is_another() -> None:
    cost = SaveCost()
    cost.add(60.0, 90.0, is_first=True)
    assert (cost.seconds, cost.durable_seconds) == (60.0, 90.0)
    cost.add(2.0, 8.0)
    assert (cost.seconds, cost.durable_seconds) == (2.0, 8.0)
    cost.add(60.0, 90.0, is_first=True)
    assert (cost.seconds, cost.durable_seconds) == (2.0, 8.0)
    cost.add(3.0, 9.0)
    assert (cost.seconds, cost.durable_seconds) == (3.0, 9.0)  # of two the upper one
