"""Where the time of the steps goes, in words."""

from __future__ import annotations

import numpy as np
import pytest

from drivetrain.training.health.record import PHASES, Table
from drivetrain.training.health.verdict import phases_in_words, share_queued, stragglers


def ranks(**seconds: list[float]) -> Table:
    """Seconds of the phases of two ranks; those that are not given are 0."""
    columns = {name: np.zeros(2) for name in PHASES} | {"steps": np.full(2, 100.0)}
    columns |= {n: np.array(s) for n, s in seconds.items()}
    return Table(["rank 0", "rank 1"], columns)


def test_the_share_in_which_ranks_wait_for_a_cpu_is_of_their_own_time() -> None:
    table = ranks(data=[1.0, 0.0], forward=[3.0, 8.0], backward=[9.0, 9.0], queued=[1.0, 6.0])
    assert share_queued(table).tolist() == [0.25, 0.75]


def test_without_queue_counts_its_share_is_zero() -> None:
    assert share_queued(ranks(data=[1.0, 1.0])).tolist() == [0.0, 0.0]  # (of an older version)
    assert share_queued(ranks(compute=[1.0, 1.0], queued=[0.0, 0.0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ({}, ""),
        ({"forward": [1, 1], "queued": [0.1, 0.5]}, "short of CPUs: rank 1 waits for one in 50% of the time"),
        ({"forward": [1, 1], "queued": [0.1, 0.25]}, "compute bound: 100% of the step computes"),
        ({"data": [1, 6], "forward": [9, 4]}, "input pipeline bound: 60% of the step waits for data; raise workers"),
        ({"data": [1, 3.9], "forward": [9, 6.1]}, "compute bound: 76% of the step computes"),
        # As the rule `slow_input`: not what waits for a CPU, nor little of each step, nor a few steps.
        ({"data": [6, 6], "forward": [4, 4], "starved": [5, 5]}, "compute bound"),
        ({"data": [0.15, 0.15], "forward": [0.05, 0.05]}, "compute bound"),
        ({"data": [6, 6], "forward": [4, 4], "steps": [19, 19]}, "compute bound"),
        ({"communication": [4, 1], "backward": [6, 9]}, "communication bound: 40% of the step waits for other ranks"),
        ({"validation": [6, 6], "compute": [4, 4]}, "validation bound: 60% of the time goes into validations"),
        ({"save": [20, 20], "compute": [80, 80]}, "checkpoint bound: 20% of the time goes into saving"),
        # Of a short training the first checkpoint is much.
        ({"save": [2, 2], "compute": [8, 8]}, "compute bound: 100% of the step computes"),
    ],
)
def test_one_sentence_says_where_the_time_goes(seconds: dict[str, list[float]], said: str) -> None:
    assert phases_in_words(ranks(**seconds)).startswith(said) and bool(said) == bool(phases_in_words(ranks(**seconds)))


def test_data_that_is_slow_at_the_beginning_alone_is_no_bound() -> None:
    """The first record: files are cold then."""
    whole, first = ranks(data=[5, 5], forward=[5, 5]), ranks(data=[4, 4], forward=[0.5, 0.5], steps=[1, 1])
    assert phases_in_words(whole, first).startswith("compute bound") and "input" in phases_in_words(whole)


def test_the_slowest_rank_comes_first_beside_the_median() -> None:
    rows = stragglers(Table(["rank 0", "rank 1", "rank 2"], {"own": np.array([0.1, 0.3, 0.2])}))
    assert [(row["rank"], round(row["to_median"], 3)) for row in rows] == [(1, 1.5), (2, 1.0), (0, 0.5)]
    assert stragglers(ranks(own=[0.1, 0.0])) == [], "a rank that nobody timed"
