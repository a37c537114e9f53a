"""The simulation of spot schedules, against what can be computed, and against itself."""

from __future__ import annotations

import math
import statistics

import pytest

from drivetrain.training.checkpointing.interval import daly
from tests.benchmarks.harness.spot_schedule import Costs, Schedule, with_cadence, with_interval

MINUTE, HOUR = 60.0, 3600.0


def expected_seconds(interval: float, work: float, costs: Costs, mean: float) -> float:
    """Daly's complete model (2006, equation 20): T = M e^(R/M) (e^((tau + delta)/M) - 1) Ts / tau, of a save that
    keeps the training from stepping until it is durable; `interval` is tau + delta."""
    tau = interval - costs.save
    return mean * math.exp(costs.restart / mean) * math.expm1(interval / mean) * work / tau


def mean_seconds(interval: float, work: float, costs: Costs, mean: float, runs: int) -> float:
    return statistics.mean(
        with_interval(interval, work, costs, Schedule(mean, seed)).seconds for seed in range(runs)
    )  # fmt: skip


@pytest.mark.parametrize("interval", [4 * MINUTE, 14 * MINUTE, 45 * MINUTE])
@pytest.mark.parametrize("restart", [0.0, 10 * MINUTE])
def test_it_takes_as_long_as_the_closed_form_says(interval: float, restart: float) -> None:
    costs = Costs(save=MINUTE, durable=MINUTE, restart=restart)
    work, mean = 400 * HOUR, HOUR
    simulated = mean_seconds(interval, work, costs, mean, runs=60)
    assert simulated == pytest.approx(expected_seconds(interval, work, costs, mean), rel=0.02)


@pytest.mark.parametrize(("mean", "optimum"), [(24 * HOUR, 117), (6 * HOUR, 57), (HOUR / 4, 9.1)])
def test_the_best_interval_is_the_published_one(mean: float, optimum: float) -> None:
    """Figures 3 to 5 of Daly (2006): Ts = 500 h, R = 10 min, delta = 5 min; tau is without the save."""
    costs = Costs(save=5 * MINUTE, durable=5 * MINUTE, restart=10 * MINUTE)
    assert daly(costs.save, mean) / MINUTE == pytest.approx(optimum, rel=0.02)
    best = expected_seconds(optimum * MINUTE + costs.save, 1.0, costs, mean)
    for factor in (0.8, 1.25):
        assert best < expected_seconds(factor * optimum * MINUTE + costs.save, 1.0, costs, mean)


@pytest.mark.parametrize("costs", [
    Costs(save=0.5, durable=0.5, restart=3.0), Costs(save=0.1, durable=4.0, restart=0.0),
    Costs(save=0.0, durable=0.0, restart=20.0),
])  # fmt: skip
@pytest.mark.parametrize("interval", [1, 7, 100, 5000])
def test_counting_is_the_same_as_asking_the_class_of_the_training(costs: Costs, interval: int) -> None:
    for seed in range(10):
        schedule = Schedule(60.0, seed)
        counted = with_interval(interval, 150.0, costs, schedule)
        asked = with_cadence(f"{interval}s", 150.0, costs, schedule, mtbf_seconds=60.0)
        assert asked.interruptions == counted.interruptions
        assert asked.seconds == pytest.approx(counted.seconds, rel=1e-9)


def test_without_interruptions_only_saves_take_time() -> None:
    costs = Costs(save=1.0, durable=2.0, restart=5.0)
    calm = Schedule(1e12, seed=1)
    # 10 s, then four times 1 s of a save and 9 s of work, then the last save and 4 s.
    assert with_interval(10.0, 50.0, costs, calm).seconds == pytest.approx(55.0)
    assert with_interval(100.0, 50.0, costs, calm).goodput == 1.0
    assert with_interval(1.0, 50.0, costs, calm).seconds == pytest.approx(99.0), "no sooner than it is durable"


def test_a_schedule_is_the_same_for_everybody() -> None:
    one, other = Schedule(10.0, seed=4), Schedule(10.0, seed=4)
    late = one.after(500.0)
    assert other.after(0.0) < other.after(100.0) and other.after(500.0) == late
    assert Schedule(10.0, seed=5).after(500.0) != late


@pytest.mark.slow
def test_the_adaptive_interval_learns_from_interruptions() -> None:
    """Machines go 60 times more often than the user thought: what was seen counts more and more."""
    costs = Costs(save=0.1, durable=0.4, restart=5.0)

    def goodput(work: float) -> float:
        return statistics.mean(
            with_cadence("auto", work, costs, Schedule(480.0, seed), mtbf_seconds=8 * HOUR).goodput for seed in range(8)
        )

    def best(work: float) -> float:
        return max(
            statistics.mean(with_interval(every, work, costs, Schedule(480.0, seed)).goodput for seed in range(8))
            for every in (2, 5, 10, 20, 40, 80)
        )

    assert goodput(8 * HOUR) / best(8 * HOUR) > goodput(HOUR) / best(HOUR)
    assert goodput(8 * HOUR) / best(8 * HOUR) > 0.98
