"""Alarms on columns from night to night: one a column, until it is answered or a night is within its bounds again."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any

from drivetrain.base.errors import InputError, did_you_mean

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNANSWERED = re.compile(r"warn after (\d{1,4})")


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """An open alarm on a column."""

    column: str
    since: date
    last: date
    """The latest night that warned or failed."""
    nights: int
    failing: int
    """Nights that were beyond what fails, also those that only warned since nobody answered."""
    text: str
    """The sentence of the latest night."""

    def since_when(self, today: date) -> str:
        """`since Tuesday`, `since 2026-11-03`."""
        named = _WEEKDAYS[self.since.weekday()] if 0 < (today - self.since).days < 7 else self.since.isoformat()
        return "since tonight" if self.since == today else f"since {named}"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "since": self.since.isoformat(), "last": self.last.isoformat()}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Alarm:
        days: dict[str, Any] = {name: date.fromisoformat(kept[name]) for name in ("since", "last")}
        return cls(**{**kept, **days})


def carried(
    alarms: Iterable[Alarm],
    warned: Mapping[str, str],
    failed: Collection[str],
    judged: Collection[str],
    day: date,
    warn_after: int | None = None,
) -> tuple[list[Alarm], frozenset[str]]:
    """The alarms after a night, by column, and the columns that fail it. The same night again changes nothing.

    Args:
        alarms: those open before.
        warned: column -> sentence, of columns that warn or fail tonight.
        failed: columns beyond what fails.
        judged: columns with a value tonight. An alarm ends where its column is judged and not warned of; one on a
            column that is missing stays open.
        warn_after: nights that an unanswered alarm fails; later ones it warns. None for no end.
    """
    open_before = {alarm.column: alarm for alarm in alarms}
    found = [one for name, one in open_before.items() if name not in warned and name not in judged]
    fails = set[str]()
    for column, text in warned.items():
        alarm = open_before.get(column) or Alarm(column=column, since=day, last=day, nights=0, failing=0, text=text)
        if alarm.last < day or not alarm.nights:
            more = int(column in failed)
            alarm = replace(alarm, last=day, nights=alarm.nights + 1, failing=alarm.failing + more)
        found.append(replace(alarm, text=text))
        if column in failed and (warn_after is None or alarm.failing <= warn_after):
            fails.add(column)
    return sorted(found, key=lambda alarm: alarm.column), frozenset(fails)


def without(alarms: Iterable[Alarm], answered: Iterable[str]) -> list[Alarm]:
    """The alarms that stay open. The history of the answered columns starts anew.

    Raises:
        InputError: a column has no open alarm.
    """
    left = {alarm.column: alarm for alarm in alarms}
    for column in dict.fromkeys(answered):
        if column not in left:
            raise InputError(
                f"no alarm is open on {column!r}. {did_you_mean(column, left, none='No other is, either.')}"
            )
        del left[column]
    return list(left.values())


def warn_after(written: object) -> int | None:
    """The nights of `unanswered: warn after 3`; None for `fail`, where every night fails until it is answered.

    Raises:
        InputError: it is neither.
    """
    if written == "fail":
        return None
    if isinstance(written, str) and (found := _UNANSWERED.fullmatch(written.strip())):
        return int(found[1])
    raise InputError(f"unanswered: {written!r} is not allowed. Give 'warn after 3' (nights that fail), or 'fail'.")
