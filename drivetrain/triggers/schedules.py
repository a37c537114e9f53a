"""A schedule trigger, read: its clock, zone, beginning and end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo

from drivetrain.spec.pipeline import Schedule
from drivetrain.triggers.cron import cron
from drivetrain.triggers.timing import Timing, at, moment, next_times, rate, zone


@dataclass(frozen=True)
class Clock:
    """When a schedule runs."""

    timing: Timing
    place: tzinfo
    start: datetime | None
    end: datetime | None

    def next_times(self, after: datetime) -> Iterator[datetime]:
        """The times later than `after`, in the schedule's zone."""
        return next_times(self.timing, after, self.place, start=self.start, end=self.end)


def clock(trigger: Schedule) -> Clock:
    """Read a schedule that names exactly one of cron, rate and at.

    Raises:
        CronError: one of its fields cannot be read.
    """
    if trigger.cron is not None:
        timing: Timing = cron(trigger.cron)
    elif trigger.rate is not None:
        timing = rate(trigger.rate)
    else:
        assert trigger.at is not None
        timing = at(trigger.at)
    place = zone(trigger.timezone)
    return Clock(
        timing=timing,
        place=place,
        start=None if trigger.start is None else moment(trigger.start, place),
        end=None if trigger.end is None else moment(trigger.end, place),
    )
