"""The fields of a step beside its arguments: what it waits for, its cache, retries, property files and outputs.

The functions take a step's JSON and its place, which begins the message of the UserError for another shape.
"""

from __future__ import annotations

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
    """The step's CacheConfig; caching is off without one."""
    given = object_of(raw.get("CacheConfig"), f"{place}: CacheConfig")
    if not given:
        return Cache()
    enabled = given.get("Enabled", False)
    if not isinstance(enabled, bool):
        raise UserError(f"{place}: CacheConfig.Enabled is {shown(enabled)}. Allowed: true, false.")
    expire = given.get("ExpireAfter")
    if expire is None:
        return Cache(enabled)
    from drivetrain.spec.durations import seconds  # few definitions have one

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
