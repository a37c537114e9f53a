"""A rank that is 30 % slower is named within 20 steps; ranks whose times scatter as on healthy hosts never are."""

from __future__ import annotations

import numpy as np
import pytest

from drivetrain.training.health.record import Floats, Record, Table
from drivetrain.training.health.rules.straggler_rank import Rule

HEALTHY_STEPS = 10_000
SLOWER, WITHIN = 1.3, 20


def times(random: np.random.Generator, steps: int, ranks: int, scatter: float) -> Floats:
    """Seconds of each step and rank: a few per cent about 0.1 s, of which now and then one takes much longer."""
    usual = 0.1 * np.exp(random.normal(0, scatter, (steps, ranks)))
    late = random.random((steps, ranks)) < 0.03
    return usual * np.where(late, 1 + random.exponential(1, (steps, ranks)), 1)


def named(seconds: Floats, each: int) -> list[tuple[int, str]]:
    """Where the rule fires, at which step, on records of `each` steps."""
    rule, found, ranks = Rule(), list[tuple[int, str]](), [f"rank {rank}" for rank in range(seconds.shape[1])]
    for step in range(each, len(seconds) + 1, each):
        table = Table(ranks, {"own": seconds[step - each : step].min(axis=0)})
        seen = rule.see(Record(step=step, steps=each, ranks=table))
        if seen is not None:
            found.append((step, seen.about))
    return found


@pytest.mark.parametrize(("ranks", "each"), [(2, 1), (4, 2), (8, 3)])
def test_ten_thousand_healthy_steps_raise_no_alarm(ranks: int, each: int) -> None:
    assert named(times(np.random.default_rng(ranks), HEALTHY_STEPS, ranks, 0.05), each) == []


@pytest.mark.parametrize("each", [1, 2, 3])
def test_a_slow_rank_is_named_within_twenty_steps(each: int) -> None:
    random = np.random.default_rng(each)
    for _ in range(60):
        ranks, begins = int(random.choice([2, 4, 8])), int(random.integers(30, 40))
        seconds, victim = times(random, 70, ranks, 0.03), int(random.integers(ranks))
        seconds[begins:, victim] *= SLOWER
        found = named(seconds, each)
        assert found and found[0][0] - begins <= WITHIN
        assert {about for _, about in found} == {f"rank {victim}"}


def test_noise_as_large_as_the_difference_is_no_straggler() -> None:
    seconds = times(np.random.default_rng(0), 400, 2, 0.6)
    assert named(seconds * [1.0, 1.3], 1) == []
