"""How long something is, as texts say it: ISO 8601 durations (`P30D`, `PT1H`) and the looser ones that real definitions
have and SageMaker takes (`30d`, `T12H`, `5y`, `30dT5h`)."""

from __future__ import annotations

import re

from drivetrain.base.errors import UserError

_DAY = 86_400
# ISO 8601 leaves a year's and a month's length to the calendar; a cache needs one number.
_DATE_UNITS = {"y": 365 * _DAY, "m": 30 * _DAY, "w": 7 * _DAY, "d": _DAY}
_TIME_UNITS = {"h": 3600, "m": 60, "s": 1}
_PART = re.compile(r"([0-9]{1,9}(?:[.,][0-9]{1,9})?)([a-z])")


def seconds(text: str) -> float:
    """The length of a duration in seconds; a month counts 30 days, a year 365. `m` before a `T` is months.

    Raises:
        UserError: for anything that is no duration.
    """
    date, marker, time = text.strip().lower().removeprefix("p").partition("t")
    total = _sum(date, {**_DATE_UNITS, **({} if marker else {"h": 3600, "s": 1})})
    of_time = _sum(time, _TIME_UNITS)
    if total is None or of_time is None or not (date or time):
        raise UserError(
            f"{text[:40]!r} is not a duration. Allowed: an ISO 8601 duration such as P30D, PT12H, P1DT6H, or short "
            "30d, T12H, 5y."
        )
    return total + of_time


def _sum(text: str, units: dict[str, int]) -> float | None:
    """The sum of parts such as `1y6m`; None when the text is something else or a unit is wrong, out of order, twice."""
    total, position, allowed = 0.0, 0, list(units)
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or part[2] not in allowed:
            return None
        total += float(part[1].replace(",", ".")) * units[part[2]]
        allowed = allowed[allowed.index(part[2]) + 1 :]
        position = part.end()
    return total
