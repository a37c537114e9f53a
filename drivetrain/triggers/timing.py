"""When a schedule runs: cron, rate and at, in a time zone, with a beginning and an end; and what any trigger waits for,
in words.

As EventBridge Scheduler documents it (https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html): when
clocks go forward, a cron time that the day does not have is skipped; when they go back, a time that comes twice runs
once (the first). A rate counts hours, so a day is 24 of them whatever the clocks do; its first run is the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.spec.pipeline import (
    Alarm,
    DataDrift,
    EventTrigger,
    PipelineFinished,
    QualityDrop,
    RegistryEvent,
    Schedule,
    Trigger,
    Upload,
)
from drivetrain.triggers.cron import Cron, CronError, cron

_UNITS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}
_MAX_RATE = timedelta(days=366 * 100)
# Years that every zone can tell: at the ends of the calendar a time of one zone has no name in another.
_YEARS = range(2, 9_999)


@dataclass(frozen=True)
class Rate:
    """Every so often."""

    count: int
    unit: str

    @property
    def period(self) -> timedelta:
        return self.count * _UNITS[self.unit]

    @property
    def text(self) -> str:
        return f"{self.count} {self.unit}{'' if self.count == 1 else 's'}"

    @property
    def expression(self) -> str:
        return f"rate({self.text})"


@dataclass(frozen=True)
class At:
    """Once, at a time by the clock of the schedule's zone."""

    local: datetime

    @property
    def text(self) -> str:
        return self.local.isoformat(timespec="seconds")

    @property
    def expression(self) -> str:
        return f"at({self.text})"


Timing = Cron | Rate | At


def rate(text: str) -> Rate:
    """Read `1 day`, `rate(6 hours)`.

    Raises:
        CronError: what is there and what is allowed.
    """
    found = re.fullmatch(r"\s*(?:rate\()?\s*([0-9]{1,9})\s+(minute|hour|day)(s?)\s*\)?\s*", text)
    if found is None or text.count("(") != text.count(")"):
        raise CronError(f"Rate {text!r}: give a count and a unit: 15 minutes, 1 hour, 7 days.")
    count, unit, plural = int(found[1]), found[2], found[3]
    if count < 1:
        raise CronError(f"Rate {text!r}: the count must be 1 or more.")
    if (count == 1) == bool(plural):
        raise CronError(f"Rate {text!r}: the service wants '{count} {unit}{'' if count == 1 else 's'}'.")
    made = Rate(count, unit)
    if made.period > _MAX_RATE:
        raise CronError(f"Rate {text!r} is more than a hundred years.")
    return made


def at(text: str) -> At:
    """Read `2026-03-01T02:00:00`, with or without `at(...)` around it.

    Raises:
        CronError: it is no time of that form.
    """
    found = re.fullmatch(r"\s*(?:at\()?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)?\s*", text)
    try:
        if found is None or text.count("(") != text.count(")"):
            raise ValueError
        made = At(datetime.fromisoformat(found[1]))
    except ValueError:
        raise CronError(f"Time {text!r}: write it as 2026-03-01T02:00:00; the zone is the schedule's.") from None
    _check_year(made.local, text)
    return made


def zone(name: str) -> tzinfo:
    """The time zone of that name.

    Raises:
        CronError: there is no zone of that name; the message has the closest match.
    """
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CronError(
            f"There is no time zone {name!r:.60}. " + did_you_mean(name[:60], available_timezones() | {"UTC"})
        ) from None


def moment(text: str, place: tzinfo) -> datetime:
    """A beginning or an end: ISO 8601, in the given zone unless it names an offset. A date alone is its midnight.

    Raises:
        CronError: it is no such time.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CronError(
            f"{text!r} is no time. Write 2026-03-01, 2026-03-01T02:00:00 or 2026-03-01T02:00:00Z."
        ) from None
    _check_year(found, text)
    return found if found.tzinfo is not None else found.replace(tzinfo=place)


def _check_year(found: datetime, text: str) -> None:
    if found.year not in _YEARS:
        raise CronError(
            f"{text!r} is of the year {found.year}; allowed are {_YEARS[0]} to {_YEARS[-1]}. For no beginning or no "
            "end, leave it out."
        )


def next_times(
    timing: Timing,
    after: datetime,
    place: tzinfo = UTC,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Iterator[datetime]:
    """The times later than `after` at which it runs, in the zone, the earliest first; without end where it has none.

    A rate without `start` is counted from `after`, as the service counts it from the schedule's creation.

    Raises:
        UserError: `after`, `start` or `end` is without zone.
    """
    for given in (after, start, end):
        if given is not None and given.tzinfo is None:
            raise UserError(f"The time {given.isoformat()} names no zone. Add one: {given.isoformat()}Z.")
    # In UTC, since Python compares two times of one zone by the clock alone, which goes back once a year.
    after, start, end = after.astimezone(UTC), start and start.astimezone(UTC), end and end.astimezone(UTC)
    for found in _times(timing, after, place, start):
        if end is not None and found > end:
            return
        if found > after and (start is None or found >= start):
            yield found


def _times(timing: Timing, after: datetime, place: tzinfo, start: datetime | None) -> Iterator[datetime]:
    if isinstance(timing, At):
        found = _existing(timing.local, place)
        if found is not None:
            yield found
    elif isinstance(timing, Rate):
        first = (start or after).astimezone(UTC)
        past = max((after - first) // timing.period, 0)
        count = past if start is not None else past + 1
        while True:
            try:
                yield (first + count * timing.period).astimezone(place)
            except OverflowError:
                return
            count += 1
    else:
        earliest = after if start is None else max(after, start)
        yield from _cron_times(timing, earliest.astimezone(place).replace(tzinfo=None) - timedelta(days=1), place)


def _cron_times(timing: Cron, since: datetime, place: tzinfo) -> Iterator[datetime]:
    """From a time by the clock on; a day more than is needed, since clocks can go back."""
    for year in timing.years:
        if year < since.year:
            continue
        for month in timing.months:
            if (year, month) < (since.year, since.month):
                continue
            for day in timing.days(year, month):
                if (year, month, day) < (since.year, since.month, since.day):
                    continue
                for hour in timing.hours:
                    for minute in timing.minutes:
                        found = _existing(datetime(year, month, day, hour, minute), place)
                        if found is not None:
                            yield found


def _existing(local: datetime, place: tzinfo) -> datetime | None:
    """A time by the clock as a moment: the first of two, none where clocks skip it."""
    found = local.replace(tzinfo=place)
    there_and_back = found.astimezone(UTC).astimezone(place)
    return found if there_and_back.replace(tzinfo=None) == local else None


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


def when(trigger: Trigger) -> str:
    """Say in one line what the trigger waits for."""
    if isinstance(trigger, Schedule):
        return _schedule(trigger)
    return "; ".join((_event(trigger), *_limits(trigger)))


def _schedule(trigger: Schedule) -> str:
    parts = [clock(trigger).timing.expression, trigger.timezone]
    if trigger.start is not None:
        parts.append(f"from {trigger.start}")
    if trigger.end is not None:
        parts.append(f"until {trigger.end}")
    if trigger.flexible_minutes is not None:
        parts.append(f"within {trigger.flexible_minutes} minutes")
    return ", ".join(parts)


def _event(trigger: EventTrigger) -> str:
    if isinstance(trigger, RegistryEvent):
        stage = " ".join(part for part in (trigger.stage, trigger.stage_status) if part)
        wanted = [part for part in (trigger.status, stage and f"stage {stage}") if part]
        changes = trigger.changes()
        changed = f"changed {' or '.join(changes)}" if changes else "any change"
        return f"a model of {trigger.group}: {', '.join((*wanted, changed))}"
    if isinstance(trigger, DataDrift):
        drifted = f": {' or '.join(trigger.columns)}" if trigger.columns else ""
        return f"data drift of {trigger.group}{drifted}"
    if isinstance(trigger, QualityDrop):
        return f"quality drop of {trigger.group}{f': {trigger.metric}' if trigger.metric else ''}"
    if isinstance(trigger, PipelineFinished):
        return f"pipeline {trigger.pipeline} {trigger.outcome}"
    if isinstance(trigger, Alarm):
        return f"alarm {trigger.alarm!r} goes off"
    assert isinstance(trigger, Upload)
    return f"s3://{trigger.bucket}/{trigger.prefix}*{trigger.suffix} arrives"


def _limits(trigger: EventTrigger) -> list[str]:
    parts: list[str] = []
    if trigger.limit is not None:
        parts.append(f"at most {trigger.limit.starts} in {trigger.limit.every}")
    if trigger.once_per is not None:
        parts.append(f"once per {trigger.once_per}")
    if not trigger.loop_guard:
        parts.append("no loop guard")
    return parts
