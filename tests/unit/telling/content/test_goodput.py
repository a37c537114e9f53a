from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from drivetrain.telling.content.goodput import (
    Attempt,
    Interruption,
    JobTimes,
    Phase,
    account,
    breaks,
    spans,
    young_loss,
)
from drivetrain.telling.content.spot_savings import Prices, saving


def times(**changes: object) -> JobTimes:
    """Two interruptions. 10 steps a second: 5 s to start, 100 steps, 20 of them lost, 3 s without machines; 4 s to
    start, 50 steps, none lost, 2 s without machines; 6 s to start, 30 steps. A save stops it for 1 s."""
    attempts = (
        Attempt(number=1, started=100.0, restart_seconds=5.0, time=116.0, first_step=0, step=100, saves=1,
                stall_seconds=1.0),
        Attempt(number=2, started=119.0, restart_seconds=4.0, time=129.0, first_step=80, step=130, saves=1,
                stall_seconds=1.0),
        Attempt(number=3, started=131.0, restart_seconds=6.0, time=140.0, first_step=130, step=160),
    )  # fmt: skip
    interruptions = (
        Interruption(at_step=100, resumed_step=80, steps_lost=20, notice_seconds=0.0, seconds_down=3.0),
        Interruption(at_step=130, resumed_step=130, steps_lost=0, notice_seconds=2.0, seconds_down=2.0),
    )
    given = {"spot": True, "attempts": attempts, "interruptions": interruptions, "training_seconds": 40.0,
             "billable_seconds": 35.0}  # fmt: skip
    return JobTimes(step="train", **{**given, **changes})  # type: ignore[arg-type]


def test_every_second_is_accounted_for() -> None:
    spent = account(times())
    assert spent is not None
    assert spent.lost == pytest.approx(2.0) and spent.down == pytest.approx(5.0)
    assert spent.restarting == pytest.approx(10.0) and spent.saving == pytest.approx(2.0)
    assert spent.total == pytest.approx(35.0), "from the first step at 105 to the end at 140"
    assert spent.useful == pytest.approx(16.0), "160 steps at 10 a second"
    assert spent.goodput == pytest.approx(16 / 35) and spent.wasted == pytest.approx(19.0)


def test_curves_break_off_where_a_start_ended() -> None:
    first, second = breaks(times())
    assert (first.at_step, first.at_second, first.steps_lost) == (100, 16.0, 20)
    assert first.lost == pytest.approx(3.0 + 4.0 + 2.0), "no machines, a restart, and 20 steps at 10 a second"
    assert (second.at_step, second.at_second, second.steps_lost) == (130, 29.0, 0)
    assert second.lost == pytest.approx(2.0 + 6.0)
    (alone, _) = breaks(times(attempts=()))
    assert (alone.at_step, alone.at_second, alone.lost, alone.steps_lost) == (100, None, 3.0, 20)
    assert breaks(times(attempts=times().attempts[:1], interruptions=())) == []


def test_youngs_bound_uses_measured_times() -> None:
    spent = account(times())
    assert spent is not None
    assert spent.save_cost == pytest.approx(1.0) and spent.failure_seconds == pytest.approx(17.5)
    assert spent.restart_cost == pytest.approx(7.5)
    assert spent.young_goodput == pytest.approx(1 - math.sqrt(2 / 17.5) - 7.5 / 17.5)
    assert young_loss(0.0, 100.0, 10.0) == pytest.approx(0.1)


def test_the_bound_is_never_negative() -> None:
    spent = account(times(attempts=tuple(
        Attempt(number=n, started=10.0 * n, restart_seconds=9.0, time=10.0 * n + 10, first_step=n, step=n + 1, saves=1,
                stall_seconds=0.9)
        for n in range(3)
    )))  # fmt: skip
    assert spent is not None and spent.young_goodput == 0.0


def test_without_interruptions_only_saves_are_wasted() -> None:
    spent = account(times(attempts=times().attempts[:1], interruptions=()))
    assert spent is not None and spent.young_goodput is None and spent.failure_seconds is None
    assert spent.wasted == pytest.approx(1.0) and spent.goodput == pytest.approx(10 / 11)


def test_a_program_without_step_logs_has_no_account() -> None:
    silent = tuple(Attempt(number=n, started=n * 10.0, time=n * 10.0 + 8) for n in range(3))
    assert account(times(attempts=silent)) is None
    assert account(times(attempts=())) is None
    assert saving(times(attempts=silent), Prices(discount=0.7)) is None


def test_savings_subtract_lost_work() -> None:
    saved = saving(times(), Prices(discount=0.7, on_demand=36.0))
    assert saved is not None
    assert saved.paid == pytest.approx(35.0) and saved.needed == pytest.approx(23.0)
    assert saved.share == pytest.approx(1 - 0.3 * 35 / 23)
    assert saved.cost == pytest.approx(0.3 * 35 * 0.01) and saved.on_demand_cost == pytest.approx(23 * 0.01)
    assert saved.share == pytest.approx(1 - saved.cost / saved.on_demand_cost)
    even = saving(times(), Prices(discount=saved.break_even))
    assert even is not None and even.share == pytest.approx(0.0)


def test_only_the_bill_multiplies_by_hosts() -> None:
    one, two = (saving(times(hosts=hosts), Prices(discount=0.5, on_demand=1.0)) for hosts in (1, 2))
    assert one is not None and two is not None and one.cost is not None and two.cost is not None
    assert two.cost == pytest.approx(2 * one.cost) and two.share == pytest.approx(one.share)


def test_time_spans_are_contiguous() -> None:
    found = spans(times())
    assert [kind for kind, _, _ in found] == [
        "restart", "training", "lost", "down", "restart", "training", "down", "restart", "training",
    ]  # fmt: skip
    assert all(before[2] == after[1] for before, after in pairwise(found))
    assert (found[0][1], found[-1][2]) == (100.0, 140.0)
    lost = next(span for span in found if span[0] == "lost")
    assert lost[2] - lost[1] == pytest.approx(2.0)


def test_machines_are_counted_a_while_after_the_last_log_line() -> None:
    first, second, _ = times().attempts
    leaves = replace(first, gone=118.0)  # it had said its last word at 116, and the next one begins at 119
    whole, told = (account(times(attempts=(one, second))) for one in (first, leaves))
    assert whole is not None and told is not None
    assert (whole.down, whole.restarting) == (pytest.approx(3.0), pytest.approx(4.0))
    assert (told.down, told.restarting) == (pytest.approx(1.0), pytest.approx(6.0))
    assert whole.total == pytest.approx(told.total) and whole.useful == pytest.approx(told.useful)
    assert times(attempts=(leaves, second)).machine_seconds == pytest.approx(18.0 + 10.0)
    assert [(kind, ended - started) for kind, started, ended in spans(times(attempts=(leaves, second)))[2:6]] == [
        ("lost", pytest.approx(2.0)), ("restart", pytest.approx(2.0)), ("down", pytest.approx(1.0)),
        ("restart", pytest.approx(4.0)),
    ]  # fmt: skip


def test_without_attempts_the_jobs_own_phases_are_drawn() -> None:
    phases = (
        Phase(status="Starting", started=0.0, ended=2.0),
        Phase(status="Training", started=2.0, ended=9.0),
        Phase(status="Interrupted", started=9.0, ended=12.0),
        Phase(status="Training", started=12.0, ended=20.0),
    )
    assert [kind for kind, _, _ in spans(times(attempts=(), phases=phases))] == [
        *("restart", "training", "down", "training")
    ]


def test_lost_steps_are_known_only_if_known_for_each_start() -> None:
    assert times().steps_lost == 20
    assert times(interruptions=(Interruption(steps_lost=3), Interruption())).steps_lost is None


def never_a_step(**changes: object) -> JobTimes:
    """Machines that go before a step is taken: 0-5 s and 10-15 s; 20-40 s with 50 steps in 15 s after a start of 5 s,
    45-50 s without one, 55-70 s with the rest of the steps in 10 s."""
    attempts = (
        Attempt(number=1, started=0.0, time=5.0),
        Attempt(number=2, started=10.0, time=15.0, first_step=0, step=0),
        Attempt(number=3, started=20.0, time=40.0, restart_seconds=5.0, first_step=0, step=50),
        Attempt(number=4, started=45.0, time=50.0),
        Attempt(number=5, started=55.0, time=70.0, restart_seconds=5.0, first_step=50, step=80),
    )
    given = {"spot": True, "attempts": attempts, "interruptions": (Interruption(seconds_down=5.0),) * 4,
             "training_seconds": 70.0, "billable_seconds": 50.0}  # fmt: skip
    return JobTimes(step="train", **{**given, **changes})  # type: ignore[arg-type]


def test_starts_without_a_step_are_restarts_not_time_without_machines() -> None:
    spent = account(never_a_step())
    assert spent is not None and spent.interruptions == 4
    assert spent.down == pytest.approx(20.0) and spent.restarting == pytest.approx(20.0) and spent.lost == 0.0
    assert spent.useful == pytest.approx(25.0) and spent.total == pytest.approx(65.0), "one start is needed anyway"
    assert spent.failure_seconds == pytest.approx(65 / 4)
    kinds = dict.fromkeys(("restart", "training", "down", "lost"), 0.0)
    for kind, started, ended in spans(never_a_step()):
        kinds[kind] += ended - started
    assert kinds == {"restart": 25.0, "training": 25.0, "down": 20.0, "lost": 0.0}


def test_starts_without_a_step_are_paid_for_and_save_nothing() -> None:
    saved = saving(never_a_step(), Prices(discount=0.7))
    assert saved is not None and saved.paid == pytest.approx(50.0)
    assert saved.needed == pytest.approx(30.0), "25 s of steps, and one start of 5 s"
    assert saved.share == pytest.approx(0.5)


def test_saves_are_needed_on_machines_that_stay_too() -> None:
    attempts = (Attempt(number=1, started=0.0, time=20.0, restart_seconds=5.0, stall_seconds=3.0, saves=3,
                        first_step=0, step=50),)  # fmt: skip
    saved = saving(never_a_step(attempts=attempts, interruptions=(), billable_seconds=20.0), Prices(discount=0.7))
    assert saved is not None and saved.share == pytest.approx(0.7), "nothing was interrupted: all of the discount"


def test_all_starts_are_billed_not_only_the_last_job() -> None:
    assert never_a_step(training_seconds=None, billable_seconds=None).machine_seconds == pytest.approx(50.0)
    assert never_a_step(billable_seconds=15.0).machine_seconds == pytest.approx(50.0)
    assert never_a_step(attempts=()).machine_seconds is None


def test_work_continued_on_demand_is_billed_on_demand() -> None:
    """50 s of machines for 25 s of steps and one start of 5 s: the last 15 s at the full price."""
    mixed = never_a_step(attempts=tuple(replace(one, spot=one.number < 5) for one in never_a_step().attempts))
    saved = saving(mixed, Prices(discount=0.7, on_demand=3600.0))
    assert saved is not None and (saved.paid, saved.needed, saved.on_demand) == pytest.approx((50.0, 30.0, 15.0))
    assert saved.cost == pytest.approx(0.3 * 35 + 15) and saved.on_demand_cost == pytest.approx(30.0)
    assert saved.share == pytest.approx(1 - 25.5 / 30)
    assert saved.break_even == pytest.approx(20 / 35)
    even = saving(mixed, Prices(discount=20 / 35))
    assert even is not None and even.share == pytest.approx(0.0)
    same = saving(never_a_step(attempts=tuple(replace(one, spot=True) for one in mixed.attempts)), Prices(discount=0.7))
    assert same is not None and same.on_demand == 0.0 and same.share == pytest.approx(0.5)


def test_no_saving_if_the_rest_on_demand_costs_more_than_everything() -> None:
    attempts = tuple(replace(one, spot=one.number < 3) for one in never_a_step().attempts)
    saved = saving(never_a_step(attempts=attempts), Prices(discount=0.9))
    assert saved is not None and saved.on_demand == pytest.approx(40.0) and saved.needed == pytest.approx(30.0)
    assert saved.break_even is None and saved.share < 0


def test_only_on_demand_machines_save_nothing() -> None:
    attempts = tuple(replace(one, spot=False) for one in never_a_step().attempts)
    assert saving(never_a_step(attempts=attempts), Prices(discount=0.7)) is None
    assert saving(never_a_step(spot=False), Prices(discount=0.7)) is None
