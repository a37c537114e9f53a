"""Schedules as recurring runs: the same times, or refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from drivetrain.spec.pipeline import Schedule
from drivetrain.targets.kubeflow.schedules import CannotSayError, trigger_of
from drivetrain.triggers.timing import clock

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def matches(cron: str, moment: datetime) -> bool:
    """Whether a six-field cron (seconds first, weekdays from 0 for Sunday) runs at a time, as robfig/cron reads it."""
    values = (moment.second, moment.minute, moment.hour, moment.day, moment.month, moment.isoweekday() % 7)
    return all(one(field, value) for field, value in zip(cron.split(), values, strict=True))


def one(field: str, value: int) -> bool:
    for part in field.split(","):
        first, _, last = part.partition("-")
        if part in ("*", "?") or int(first if part not in "*?" else 0) <= value <= int(last or first):
            return True
    return False


@pytest.mark.parametrize(
    ("given", "cron"),
    [
        ("0 2 ? * MON-FRI *", "0 0 2 ? * 1-5"),
        ("0/15 * * * ? *", "0 0,15,30,45 * * * ?"),
        ("30 4,16 1,15 * ? *", "0 30 4,16 1,15 * ?"),
        ("5 0 ? 1-3,12 SUN,WED *", "0 5 0 ? 1-3,12 0,3"),
        ("0 0 ? * 7 *", "0 0 0 ? * 6"),
        ("59 23 31 * ? *", "0 59 23 31 * ?"),
    ],
)
def test_the_recurring_run_has_the_same_times(given: str, cron: str) -> None:
    schedule = Schedule(name="s", cron=given)
    assert trigger_of(schedule) == {"cron_schedule": {"cron": cron}}
    times = list(islice(clock(schedule).next_times(NOW), 40))
    moment = NOW + timedelta(minutes=1)
    while not matches(cron, moment):
        moment += timedelta(minutes=1)
    assert moment == times[0]
    assert all(matches(cron, each) for each in times)


def test_rates_and_bounds() -> None:
    assert trigger_of(Schedule(name="s", rate="6 hours")) == {"periodic_schedule": {"interval_second": "21600"}}
    bounded = Schedule(name="s", cron="0 2 * * ? *", start="2027-01-01", end="2027-07-01T02:00:00+02:00")
    assert trigger_of(bounded)["cron_schedule"] == {
        "cron": "0 0 2 * * ?",
        "start_time": "2027-01-01T00:00:00Z",
        "end_time": "2027-07-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("schedule", "field", "says"),
    [
        ({"cron": "0 2 L * ? *"}, "cron", "last day"),
        ({"cron": "0 2 15W * ? *"}, "cron", "nearest weekday"),
        ({"cron": "0 2 ? * 3#1 *"}, "cron", "nth weekday"),
        ({"cron": "0 2 * * ? 2027"}, "cron", "its year"),
        ({"cron": "0 2 * * ? *", "timezone": "Europe/Berlin"}, "timezone", "clock is UTC"),
        ({"cron": "0 2 * * ? *", "flexible_minutes": 15}, "flexible_minutes", "Leave it out"),
        ({"at": "2027-03-01T02:00:00"}, "at", "no single time"),
    ],
)
def test_inexpressible_schedules_are_refused(schedule: dict[str, str], field: str, says: str) -> None:
    with pytest.raises(CannotSayError, match=says) as refused:
        trigger_of(Schedule(name="s", **schedule))
    assert refused.value.field == field


def test_inexpressible_schedules_are_refused_at_compile_time() -> None:
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.targets.kubeflow.compile.checks import check

    pipeline = Pipeline(name="p", steps=(), triggers=(Schedule(name="late", cron="0 2 L * ? *"),))
    assert [str(each) for each in check(pipeline)] == [
        "The pipeline: trigger 'late', cron: the last day of a month (L, W, #) cannot be said. Give days or weekdays."
    ]
