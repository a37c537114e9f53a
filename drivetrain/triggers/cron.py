"""AWS cron expressions: six fields, minutes first and the year last, with L, W, # and ?.

    cron("0 2 ? * MON-FRI *").days(2026, 3)

Fields and wildcards: https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html#cron-based. What that
page does not name (L-3, LW, wrapping ranges, steps in the day of the week) is refused: whether the service takes it is
not promised, and a schedule that never runs is worse than a message.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from drivetrain.base.errors import UserError

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
"""1 is Sunday, 7 is Saturday."""

MAX_CHARACTERS = 256


class CronError(UserError):
    """An expression that the service would refuse, or that would never run."""


@dataclass(frozen=True)
class _Field:
    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()
    steps: bool = True

    @property
    def allowed(self) -> str:
        text = f"{self.first} to {self.last}"
        if self.names:
            text += f" or {self.names[0]} to {self.names[-1]}"
        return text


MINUTES = _Field("minutes", 0, 59)
HOURS = _Field("hours", 0, 23)
DAY_OF_MONTH = _Field("day of month", 1, 31)
MONTH = _Field("month", 1, 12, MONTHS)
DAY_OF_WEEK = _Field("day of week", 1, 7, WEEKDAYS, steps=False)
YEAR = _Field("year", 1970, 2199)


DayRule = Literal["days", "last day", "nearest weekday", "weekdays", "last weekday", "nth weekday"]


@dataclass(frozen=True)
class Cron:
    """An expression that was read. Values are sorted; those of the week count from 1 for Sunday."""

    text: str
    """The six fields with one space between, names in capitals: what is sent to the service."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: tuple[int, ...]
    years: tuple[int, ...]
    rule: DayRule
    day_values: tuple[int, ...]
    """Days (`days`), the day (`nearest weekday`), weekdays, the weekday (`last weekday`), weekday and count (`nth`)."""

    def days(self, year: int, month: int) -> list[int]:
        """The days of a month on which it runs, whether or not it runs in that month."""
        first, num_days = _first_weekday(year, month), calendar.monthrange(year, month)[1]

        def all_of(weekday: int) -> list[int]:
            return list(range((weekday - first) % 7 + 1, num_days + 1, 7))

        match self.rule:
            case "days":
                return [day for day in self.day_values if day <= num_days]
            case "last day":
                return [num_days]
            case "nearest weekday":
                day = self.day_values[0]
                return [_nearest_weekday(day, (first + day - 2) % 7 + 1, num_days)] if day <= num_days else []
            case "weekdays":
                return sorted(day for weekday in self.day_values for day in all_of(weekday))
            case "last weekday":
                return all_of(self.day_values[0])[-1:]
            case "nth weekday":
                weekday, count = self.day_values
                return all_of(weekday)[count - 1 : count]

    @cached_property
    def expression(self) -> str:
        return f"cron({self.text})"


def cron(text: str) -> Cron:
    """Read the six fields, with or without `cron(...)` around them.

    Raises:
        CronError: naming the field, what is there and what is allowed.
    """
    if len(text) > MAX_CHARACTERS:
        raise CronError(f"A cron expression of {len(text):,} characters; at most {MAX_CHARACTERS}.")
    wrapped = re.fullmatch(r"\s*cron\((.*)\)\s*", text, re.DOTALL)
    fields = (wrapped[1] if wrapped else text).upper().split()
    if len(fields) != 6:
        hint = (
            " A crontab line has five: add the year, and ? for one of the two day fields." if len(fields) == 5 else ""
        )
        raise CronError(
            f"Cron {text!r} has {len(fields)} fields; six are needed: minutes hours day-of-month month day-of-week "
            f"year, such as '0 2 * * ? *' for two o'clock each night.{hint}"
        )
    minutes, hours, day_of_month, month, day_of_week, year = fields
    if (day_of_month == "?") == (day_of_week == "?"):
        both = "both" if day_of_month == "?" else "neither"
        raise CronError(
            f"Cron {text!r}: {both} of day of month and day of week is '?'. Exactly one must be: the days are said by "
            "the other one."
        )
    rule, day_values = _month_days(day_of_month) if day_of_week == "?" else _week_days(day_of_week)
    made = Cron(
        text=" ".join(fields),
        minutes=_values(MINUTES, minutes),
        hours=_values(HOURS, hours),
        months=_values(MONTH, month),
        years=_values(YEAR, year),
        rule=rule,
        day_values=day_values,
    )
    if not any(made.days(year, month) for year in made.years for month in made.months):
        raise CronError(f"Cron {text!r} never comes: there is no such day in these months.")
    return made


def _month_days(text: str) -> tuple[DayRule, tuple[int, ...]]:
    if text == "L":
        return "last day", ()
    if found := re.fullmatch(r"(\d{1,2})W", text):
        return "nearest weekday", (_number(DAY_OF_MONTH, found[1], text),)
    if "W" in text or "L" in text:
        raise _refused(DAY_OF_MONTH, text, "L (the last day) and W (15W, the weekday nearest to the 15th) stand alone")
    return "days", _values(DAY_OF_MONTH, text)


def _week_days(text: str) -> tuple[DayRule, tuple[int, ...]]:
    if text == "L":
        return "weekdays", (7,)
    if found := re.fullmatch(r"([A-Z]{3}|\d)L", text):
        return "last weekday", (_number(DAY_OF_WEEK, found[1], text),)
    if found := re.fullmatch(r"([A-Z]{3}|\d)#(\d)", text):
        if not 1 <= int(found[2]) <= 5:
            raise _refused(DAY_OF_WEEK, text, "a month has the first to the fifth of a weekday: 3#1 to 3#5")
        return "nth weekday", (_number(DAY_OF_WEEK, found[1], text), int(found[2]))
    if "#" in text or re.search(r"\dL|[A-Z]{3}L|\bL\b", text):
        raise _refused(DAY_OF_WEEK, text, "# (3#2, the second Tuesday) and L (6L, the last Friday) stand alone")
    return "weekdays", _values(DAY_OF_WEEK, text)


def _values(field: _Field, text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        if slash and not field.steps:
            raise _refused(field, part, "steps are not documented for it. List the days: MON,WED,FRI")
        step = 1
        if slash:
            if not step_text.isascii() or not step_text.isdigit() or not 1 <= int(step_text) <= field.last:
                raise _refused(field, part, f"after the slash stands a step from 1 to {field.last}")
            step = int(step_text)
        low, dash, high = span.partition("-")
        if span == "*":
            first, last = field.first, field.last
        elif dash:
            first, last = _number(field, low, part), _number(field, high, part)
            if first > last:
                raise _refused(
                    field, part, f"the range runs backwards. Write two: {first}-{field.last},{field.first}-{last}"
                )
        else:
            first = _number(field, span, part)
            last = field.last if slash else first
        found.update(range(first, last + 1, step))
    return tuple(sorted(found))


def _number(field: _Field, text: str, part: str) -> int:
    if text in field.names:
        return field.names.index(text) + 1
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and field.first <= int(text) <= field.last):
        raise _refused(field, part, f"allowed are {field.allowed}, lists (1,15), ranges (1-5), * and steps (0/10)")
    return int(text)


def _refused(field: _Field, part: str, why: str) -> CronError:
    return CronError(f"Cron field {field.name} is {part!r}: {why}.")


def _first_weekday(year: int, month: int) -> int:
    """The weekday of the first of a month, 1 for Sunday."""
    return (calendar.weekday(year, month, 1) + 1) % 7 + 1


def _nearest_weekday(day: int, weekday: int, num_days: int) -> int:
    """The weekday nearest to a day, inside its month."""
    if weekday == 7:  # Saturday
        return day - 1 if day > 1 else day + 2
    if weekday == 1:  # Sunday
        return day + 1 if day < num_days else day - 2
    return day
