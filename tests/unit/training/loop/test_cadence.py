from __future__ import annotations

import random

import pytest

from drivetrain.training.checkpointing.interval import Every, parse_every, young
from drivetrain.training.loop.cadence import FIRST_SECONDS, Cadence

HOURS = 3600.0


class Clock:
    now = 5000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_steps_and_epochs_are_known_to_every_rank(clock: Clock) -> None:
    steps = Cadence(parse_every("20steps"), mtbf_seconds=HOURS, clock=clock)
    assert [step for step in range(1, 65) if steps.falls_on(step, ends_epoch=step == 30)] == [20, 40, 60]
    epochs = Cadence(parse_every("epoch"), mtbf_seconds=HOURS, clock=clock)
    assert [step for step in range(1, 65) if epochs.falls_on(step, ends_epoch=step == 30)] == [30]
    clock.now += 1e6
    assert not steps.is_due() and not epochs.is_due(ends_epoch=True)


def test_a_time_counts_from_one_save_to_the_next(clock: Clock) -> None:
    cadence = Cadence(Every(seconds=60), mtbf_seconds=HOURS, clock=clock)
    assert not cadence.falls_on(1, ends_epoch=True)
    clock.now += 59
    assert not cadence.is_due(ends_epoch=True)
    clock.now += 1
    assert cadence.is_due()
    cadence.begins()
    cadence.saved(5.0, 30.0)
    assert not cadence.is_due()
    clock.now += 60
    assert cadence.is_due()


def test_the_first_save_is_early_for_it_is_the_measurement(clock: Clock) -> None:
    cadence = Cadence(Every(), mtbf_seconds=8 * HOURS, clock=clock)
    assert not cadence.is_due()
    assert cadence.is_due(ends_epoch=True)
    clock.now += FIRST_SECONDS
    assert cadence.is_due()
    cadence.begins()
    cadence.saved(0.5, 2.0)
    assert cadence.interval == pytest.approx(young(0.5, 8 * HOURS), rel=0.01)
    clock.now += cadence.interval - 1
    assert not cadence.is_due()
    assert cadence.is_due(ends_epoch=True)  # half a second in two minutes
    clock.now += 10  # an hour without interruptions is a good sign, and so is a minute
    assert cadence.is_due()


def test_a_first_save_that_takes_long_is_soon_forgotten(clock: Clock) -> None:
    """It also plans, and makes a buffer of the size of the model."""
    cadence = Cadence(Every(), mtbf_seconds=8 * HOURS, clock=clock)
    cadence.saved(60.0, 60.0)
    assert cadence.interval > 1800
    cadence.saved(2.0, 6.0)
    assert cadence.interval == pytest.approx(young(2.0, 8 * HOURS), rel=0.01)
    # A restart knows what saves cost, and its own first one says nothing new.
    again = Cadence(Every(), mtbf_seconds=8 * HOURS, measured=(2.0, 6.0), clock=clock)
    again.saved(60.0, 60.0)
    assert again.interval == pytest.approx(young(2.0, 8 * HOURS), rel=0.01)


def test_a_dear_save_waits_beyond_the_ends_of_epochs(clock: Clock) -> None:
    cadence = Cadence(Every(), mtbf_seconds=8 * HOURS, measured=(5.0, 9.0), clock=clock)
    clock.now += 400
    assert not cadence.is_due(ends_epoch=True)
    clock.now += 150
    assert cadence.is_due(ends_epoch=True)


def test_a_save_that_is_being_written_is_never_met_by_the_next(clock: Clock) -> None:
    cadence = Cadence(Every(), mtbf_seconds=60.0, measured=(0.001, 40.0), clock=clock)
    clock.now += 39
    assert not cadence.is_due(ends_epoch=True)
    clock.now += 2
    assert cadence.is_due()


def test_slower_steps_are_part_of_what_a_save_costs(clock: Clock) -> None:
    cadence = Cadence(Every(), mtbf_seconds=HOURS, clock=clock)
    cadence.reached(0, is_writing=False)
    clock.now += 10
    cadence.reached(100, is_writing=False)  # 0.1 s a step
    cadence.begins()
    clock.now += 0.3  # the stall is no step
    cadence.reached(100, is_writing=True)
    clock.now += 3
    cadence.reached(120, is_writing=True)  # 0.15 s a step: a second lost
    cadence.saved(0.3, 3.3)
    assert cadence.cost.seconds == pytest.approx(0.3 + 1.0)
    clock.now += 100  # a validation
    cadence.restart()
    cadence.reached(120, is_writing=False)
    clock.now += 1
    cadence.reached(130, is_writing=False)
    cadence.begins()
    cadence.saved(0.3, 0.4)
    assert cadence.cost.seconds == pytest.approx(0.3)


def test_machines_that_are_taken_often_are_saved_from_often(clock: Clock) -> None:
    calm = Cadence(Every(), mtbf_seconds=8 * HOURS, measured=(1.0, 2.0), clock=clock)
    shaken = Cadence(Every(), mtbf_seconds=8 * HOURS, seen=(2 * HOURS, 9), measured=(1.0, 2.0), clock=clock)
    assert shaken.mtbf_seconds < HOURS / 2
    assert shaken.interval < 0.4 * calm.interval
    clock.now += 90 * HOURS
    assert shaken.mtbf_seconds > 10 * HOURS


def simulated(interval: float, gaps: list[float], work: float, *, cost: float, restart: float) -> float:
    """Seconds until `work` seconds of steps are done, with a save each `interval` and interruptions after `gaps`."""
    total = done = 0.0
    for gap in gaps:
        start, left, saved = restart, gap - restart, done
        while left > 0:
            piece = min(interval - cost, work - saved)
            if left < piece + cost:
                break
            left, saved, start = left - piece - cost, saved + piece, start + piece + cost
            if saved >= work:
                return total + start
        total, done = total + gap, saved
    raise AssertionError("more gaps are needed")


@pytest.mark.parametrize("seed", range(5))
def test_goodput_is_that_of_the_best_fixed_interval(seed: int, clock: Clock) -> None:
    """On a seeded schedule of interruptions, against every other interval; the prior is four times too long."""
    cost, mtbf, restart, work = 2.0, 1800.0, 40.0, 100_000.0
    drawn = random.Random(seed)
    gaps = [drawn.expovariate(1 / mtbf) for _ in range(2000)]
    seen = (sum(gaps[:20]), 20)  # by then a training knows
    cadence = Cadence(Every(), mtbf_seconds=4 * mtbf, seen=seen, measured=(cost, cost), clock=clock)
    own = simulated(cadence.interval, gaps[20:], work, cost=cost, restart=restart)
    best = min(simulated(5 * 1.15**number, gaps[20:], work, cost=cost, restart=restart) for number in range(40))
    assert best / own >= 0.95
