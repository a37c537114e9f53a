"""A rank that is 30 % slower is named within 20 steps; ranks whose times scatter as on healthy hosts never are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivetrain.training.health.clock import FORWARD, OTHER, Clock
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


@pytest.mark.slow_cases(but=["4-2"])
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


# Seven healthy trainings of two gloo ranks (digits_cnn under ddp; one and two threads a rank) on a host of two cores
# with 5 to 15 other processes at work: what they recorded of their ranks.
BUSY = json.loads((Path(__file__).parents[3] / "fixtures/busy_host.json").read_text(encoding="utf-8"))


def replayed(run: list[dict[str, Any]], *, slower: float = 1.0, with_queue: bool = False) -> list[tuple[int, str]]:
    """Where the rule fires, rank 1 being `slower`; `with_queue`: were waiting for a CPU time of its own."""
    rule, found = Rule(), list[tuple[int, str]]()
    for row in run:
        columns = {name: np.array(row[name]) for name in ("own", "queued", "data", "forward")}
        if with_queue:
            columns = {"own": (columns["data"] + columns["forward"]) / row["steps"]}
        columns["own"] = columns["own"] * [1.0, slower]
        table = Table(["rank 0", "rank 1"], columns)
        seen = rule.see(Record(step=row["step"], steps=row["steps"], ranks=table))
        if seen is not None:
            found.append((row["step"], seen.about))
    return found


def test_healthy_ranks_of_a_busy_host_raise_no_alarm() -> None:
    waits = [
        sum(row["queued"][0] for row in run) / sum(row["data"][0] + row["forward"][0] for row in run) for run in BUSY
    ]
    assert len(BUSY) == 7 and min(waits) > 0.2 and max(waits) > 0.6
    assert [replayed(run) for run in BUSY] == [[]] * len(BUSY)
    assert sum(bool(replayed(run, with_queue=True)) for run in BUSY) >= 3, "waiting for a CPU is what would alarm"


def test_a_rank_that_is_far_slower_is_named_on_a_busy_host_too() -> None:
    for run in BUSY:
        found = replayed(run, slower=2.5)
        assert {about for _, about in found} == {"rank 1"} and found[0][0] <= 25


@pytest.mark.parametrize(("queued", "slower", "is_named"), [(0.0, 1.3, True), (0.2, 1.4, False), (0.2, 1.5, True)])
def test_the_more_a_rank_waits_for_a_cpu_the_slower_it_has_to_be(queued: float, slower: float, is_named: bool) -> None:
    seconds = np.array([0.1, 0.1, 0.1 * slower])
    columns = {"own": seconds, "data": 0 * seconds, "forward": seconds / (1 - queued)}
    columns["queued"] = columns["forward"] * [0.0, 0.0, queued]
    rule, table = Rule(), Table(["rank 0", "rank 1", "rank 2"], columns)
    seen = [rule.see(Record(step=step, steps=1, ranks=table)) for step in range(1, WITHIN + 1)]
    assert {one.about for one in seen if one} == ({"rank 2"} if is_named else set())


# Takes the CPU that the test is told to take.
HOG = "import os\nos.sched_setaffinity(0, {%d})\nwhile True: pass"


def test_time_in_the_queue_is_told_apart_from_ones_own() -> None:
    """A thread that shares its CPU with others: what it waits for is not what it takes."""
    allowed = os.sched_getaffinity(0)
    cpu, clock = min(allowed), Clock()
    clock.leave_out_the_queue()
    hogs = [subprocess.Popen([sys.executable, "-S", "-c", HOG % cpu]) for _ in range(2)]
    try:
        os.sched_setaffinity(0, {cpu})
        clock.mark(OTHER)
        begun, worked = time.perf_counter(), time.thread_time()
        while time.thread_time() - worked < 0.15:
            pass
        took, worked = time.perf_counter() - begun, time.thread_time() - worked
        clock.mark(FORWARD)
    finally:
        os.sched_setaffinity(0, allowed)
        for hog in hogs:
            hog.kill()
            hog.wait()
        clock.close()
    assert clock.own == pytest.approx(worked, abs=0.02)
    assert clock.own + clock.queued == pytest.approx(took, abs=0.02) and clock.queued > 0.05
