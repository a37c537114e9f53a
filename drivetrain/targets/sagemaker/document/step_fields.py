"""The fields of a step beside its arguments: what it waits for, its cache, retries, property files and outputs.

The functions take a step's JSON and its place, which begins the message of the UserError for another shape.

How long a cached result stays good is read in every spelling of `ExpireAfter` that real definitions have: the service
takes ISO 8601 durations (`P30D`, `PT1H`) and looser ones (`30d`, `T12H`, `5y`, `30dT5h`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import Json
from drivetrain.base.records import dataclass
from drivetrain.targets.sagemaker.document import (
    list_of,
    member,
    object_of,
    optional_number,
    optional_text,
    shown,
    text_of,
)

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


class DependsOn(NamedTuple):
    """An edge that no reference makes; `trigger` (Failed, Stopped, Any) runs the step because of how `step` ended."""

    step: str
    trigger: str | None = None


class PropertyFile(NamedTuple):
    """A JSON file in one of the step's outputs, from which Std:JsonGet reads."""

    output_name: str
    file_path: str


class OutputParameter(NamedTuple):
    """A named value that a Callback, Lambda or notebook step gives back."""

    name: str
    type: str


@dataclass(frozen=True)
class Cache:
    """The step's CacheConfig. Without `expire_after_seconds` a result never gets too old."""

    enabled: bool = False
    expire_after_seconds: float | None = None


@dataclass(frozen=True)
class Retry:
    """One retry policy, with the service's defaults. `expire_after_seconds` bounds the sum of all attempts."""

    exceptions: tuple[str, ...]
    interval_seconds: float = 1
    backoff_rate: float = 2.0
    max_attempts: int | None = 5
    expire_after_seconds: float | None = None


def depends_on(raw: dict[str, Json], place: str) -> tuple[DependsOn, ...]:
    """The step's DependsOn: names, or objects with Step and Trigger."""
    found: list[DependsOn] = []
    for n, item in enumerate(list_of(raw.get("DependsOn"), f"{place}: DependsOn")):
        if isinstance(item, dict):
            where = f"{place}: DependsOn[{n}]"
            trigger = optional_text(item, "Trigger", where)
            # That is what a plain name means: the SDK's word for it, which it never writes.
            found.append(DependsOn(member(item, "Step", where), None if trigger == "Completed" else trigger))
        else:
            found.append(DependsOn(text_of(item, f"{place}: DependsOn[{n}]")))
    return tuple(found)


def cache(raw: dict[str, Json], place: str) -> Cache:
    """The step's CacheConfig; caching is off where there is none."""
    given = object_of(raw.get("CacheConfig"), f"{place}: CacheConfig")
    if not given:
        return Cache()
    enabled = given.get("Enabled", False)
    if not isinstance(enabled, bool):
        raise UserError(f"{place}: CacheConfig.Enabled is {shown(enabled)}. Allowed: true, false.")
    expire = given.get("ExpireAfter")
    if expire is None:
        return Cache(enabled)
    where = f"{place}: CacheConfig.ExpireAfter"
    text = text_of(expire, where)
    try:
        return Cache(enabled, seconds(text))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def property_files(raw: dict[str, Json], place: str) -> dict[str, PropertyFile]:
    """Name -> where the file lies."""
    return {
        member(given, "PropertyFileName", where): PropertyFile(
            member(given, "OutputName", where), member(given, "FilePath", where)
        )
        for given, where in _listed(raw, "PropertyFiles", place)
    }


def output_parameters(raw: dict[str, Json], place: str) -> tuple[OutputParameter, ...]:
    """The values that the step says it gives back."""
    return tuple(
        OutputParameter(member(given, "OutputName", where), optional_text(given, "OutputType", where) or "String")
        for given, where in _listed(raw, "OutputParameters", place)
    )


def retry_policies(raw: dict[str, Json], place: str) -> tuple[Retry, ...]:
    """When the service tries the step again."""
    return tuple(_retry(given, where) for given, where in _listed(raw, "RetryPolicies", place))


def _retry(given: dict[str, Json], place: str) -> Retry:
    expire = optional_number(given, "ExpireAfterMin", place)
    attempts = optional_number(given, "MaxAttempts", place)
    defaults = Retry(())
    if attempts is None:
        attempts = defaults.max_attempts if expire is None else None
    interval = optional_number(given, "IntervalSeconds", place)
    backoff = optional_number(given, "BackoffRate", place)
    return Retry(
        exceptions=tuple(
            text_of(item, f"{place}.ExceptionType")
            for item in list_of(given.get("ExceptionType"), f"{place}.ExceptionType")
        ),
        interval_seconds=defaults.interval_seconds if interval is None else interval,
        backoff_rate=defaults.backoff_rate if backoff is None else backoff,
        max_attempts=None if attempts is None else int(attempts),
        expire_after_seconds=None if expire is None else expire * 60,
    )


def _listed(raw: dict[str, Json], key: str, place: str) -> list[tuple[dict[str, Json], str]]:
    """The objects of a list, each with its place."""
    place = f"{place}: {key}"
    items = enumerate(list_of(raw.get(key), place))
    return [(object_of(item, f"{place}[{n}]"), f"{place}[{n}]") for n, item in items]
