"""An AWS schedule in the words of other schedulers, or the reason why they cannot say it.

Copying the fields would be wrong everywhere: AWS counts weekdays from 1 for Sunday, crontab and Kubeflow from 0, and
APScheduler from 0 for Monday; Kubeflow's six fields begin with the seconds and have no year.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from drivetrain.pipelines.triggers.cron import (
    DAY_OF_MONTH,
    HOURS,
    MINUTES,
    MONTH,
    YEAR,
    CronError,
)
from drivetrain.pipelines.triggers.timing import At, Rate, Timing

_ORDINALS = ("1st", "2nd", "3rd", "4th", "5th")
_APSCHEDULER_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


def crontab(timing: Timing) -> str:
    """The five fields of crontab(5): minute hour day-of-month month day-of-week, Sunday being 0.

    Raises:
        CronError: crontab cannot say it.
    """
    return " ".join(_five_fields(timing, "crontab"))


def kubeflow(timing: Timing, timezone: str = "UTC") -> dict[str, Any]:
    """Arguments of Kubeflow's `create_recurring_run`: `cron_expression` (seconds first) or `interval_second`.

    Raises:
        CronError: Kubeflow cannot say it.
    """
    if isinstance(timing, Rate):
        return {"interval_second": int(timing.period.total_seconds())}
    if timezone != "UTC":
        raise CronError(
            f"Kubeflow runs a cron in the zone of its server, UTC unless set there; this one is in {timezone}. Give "
            "the schedule in UTC."
        )
    return {"cron_expression": " ".join(("0", *_five_fields(timing, "Kubeflow")))}


def apscheduler(timing: Timing, timezone: str = "UTC") -> tuple[str, dict[str, Any]]:
    """The name of an APScheduler trigger (`cron`, `interval`, `date`) and its arguments.

    Raises:
        CronError: APScheduler cannot say it.
    """
    if isinstance(timing, At):
        return "date", {"run_date": timing.local, "timezone": timezone}
    if isinstance(timing, Rate):
        return "interval", {f"{timing.unit}s": timing.count, "timezone": timezone}
    fields = {
        "year": _spans(timing.years, YEAR.first, YEAR.last),
        "month": _spans(timing.months, MONTH.first, MONTH.last),
        "day": "*",
        "day_of_week": "*",
        "hour": _spans(timing.hours, HOURS.first, HOURS.last),
        "minute": _spans(timing.minutes, MINUTES.first, MINUTES.last),
        "second": "0",
        "timezone": timezone,
    }
    match timing.rule:
        case "days":
            fields["day"] = _spans(timing.day_values, DAY_OF_MONTH.first, DAY_OF_MONTH.last)
        case "last day":
            fields["day"] = "last"
        case "weekdays":
            if len(timing.day_values) < 7:
                fields["day_of_week"] = ",".join(_APSCHEDULER_WEEKDAYS[day - 1] for day in timing.day_values)
        case "last weekday":
            fields["day"] = f"last {_APSCHEDULER_WEEKDAYS[timing.day_values[0] - 1]}"
        case "nth weekday":
            weekday, count = timing.day_values
            fields["day"] = f"{_ORDINALS[count - 1]} {_APSCHEDULER_WEEKDAYS[weekday - 1]}"
        case "nearest weekday":
            raise CronError(f"APScheduler has no W (the nearest weekday), which {timing.text!r} uses.")
    return "cron", fields


def _five_fields(timing: Timing, name: str) -> tuple[str, str, str, str, str]:
    if isinstance(timing, At):
        raise CronError(f"{name} has no single time such as {timing.text}. Start the pipeline by hand then.")
    if isinstance(timing, Rate):
        raise CronError(f"{name} has no rate; {timing.text!r} can be a cron: '0 0 * * ? *' for each day.")
    if len(timing.years) < YEAR.last - YEAR.first + 1:
        raise CronError(f"{name} has no year, and {timing.text!r} names some. Give the schedule a start and an end.")
    if timing.rule not in ("days", "weekdays"):
        raise CronError(f"{name} has no L, W or #, and {timing.text!r} uses one.")
    days, weekdays = "*", "*"
    if timing.rule == "days":
        days = _spans(timing.day_values, DAY_OF_MONTH.first, DAY_OF_MONTH.last)
    elif len(timing.day_values) < 7:
        weekdays = _spans(tuple(day - 1 for day in timing.day_values), 0, 6)
    return (
        _spans(timing.minutes, MINUTES.first, MINUTES.last),
        _spans(timing.hours, HOURS.first, HOURS.last),
        days,
        _spans(timing.months, MONTH.first, MONTH.last),
        weekdays,
    )


def _spans(values: Sequence[int], first: int, last: int) -> str:
    """Sorted values as `*`, `0-50/10`, or a list of numbers and ranges, which all of them understand alike."""
    if len(values) == last - first + 1:
        return "*"
    steps = {after - before for before, after in pairwise(values)}
    if len(values) > 2 and len(steps) == 1 and (step := steps.pop()) > 1:
        return f"{values[0]}-{values[-1]}/{step}"
    parts: list[list[int]] = []
    for value in values:
        if parts and parts[-1][-1] == value - 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
