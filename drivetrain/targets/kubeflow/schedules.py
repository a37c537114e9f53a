"""A schedule as the trigger of a recurring run.

Its cron has six fields, seconds first, no year, and weekdays from 0 for Sunday
(https://www.kubeflow.org/docs/components/pipelines/user-guides/core-functions/run-a-pipeline/). It is read by the
cluster's clock, which is UTC. What cannot be said so is refused: a schedule that runs at another time is worse than
a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.spec.pipeline import Schedule
from drivetrain.triggers.cron import DAY_OF_MONTH, HOURS, MINUTES, MONTH, YEAR, Cron
from drivetrain.triggers.timing import At, Rate, clock

_UTC = ("UTC", "Etc/UTC", "Etc/GMT", "GMT", "Zulu", "Universal")
Json = dict[str, Any]


class CannotSayError(UserError):
    """A schedule that recurring runs cannot express; `field` is the field of it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def trigger_of(schedule: Schedule) -> Json:
    """The `trigger` of the recurring run.

    Raises:
        CannotSayError: it runs at times that recurring runs cannot express.
        CronError: one of its fields cannot be read.
    """
    if schedule.flexible_minutes is not None:
        raise CannotSayError("flexible_minutes", "a recurring run starts at its time. Leave it out.")
    read = clock(schedule)
    bounds = {
        name: moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for name, moment in (("start_time", read.start), ("end_time", read.end))
        if moment is not None
    }
    if isinstance(read.timing, At):
        raise CannotSayError("at", "a recurring run has no single time. Use cron with start and end.")
    if isinstance(read.timing, Rate):
        return {"periodic_schedule": {"interval_second": str(int(read.timing.period.total_seconds())), **bounds}}
    if schedule.timezone not in _UTC:
        raise CannotSayError(
            "timezone", f"{schedule.timezone!r} cannot be said: the cluster's clock is UTC. Give the cron in UTC."
        )
    return {"cron_schedule": {"cron": _cron(read.timing), **bounds}}


def _cron(cron: Cron) -> str:
    if len(cron.years) != YEAR.last - YEAR.first + 1:
        raise CannotSayError("cron", "its year cannot be said. Give * for the year, and start and end.")
    if cron.rule not in ("days", "weekdays"):
        raise CannotSayError("cron", f"the {cron.rule} of a month (L, W, #) cannot be said. Give days or weekdays.")
    month_days = _list(cron.day_values, DAY_OF_MONTH.first, DAY_OF_MONTH.last) if cron.rule == "days" else "?"
    # Ours count from 1 for Sunday.
    week_days = _list([day - 1 for day in cron.day_values], 0, 6) if cron.rule == "weekdays" else "?"
    fields = (
        "0",
        _list(cron.minutes, MINUTES.first, MINUTES.last),
        _list(cron.hours, HOURS.first, HOURS.last),
        month_days,
        _list(cron.months, MONTH.first, MONTH.last),
        week_days,
    )
    return " ".join(fields)


def _list(values: Sequence[int], first: int, last: int) -> str:
    """As few words as say it: `*`, and ranges for neighbours."""
    if list(values) == list(range(first, last + 1)):
        return "*"
    spans: list[list[int]] = []
    for value in values:
        if spans and value == spans[-1][-1] + 1:
            spans[-1].append(value)
        else:
            spans.append([value])
    return ",".join(f"{span[0]}-{span[-1]}" if len(span) > 2 else ",".join(map(str, span)) for span in spans)
