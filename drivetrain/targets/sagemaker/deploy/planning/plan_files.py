"""A plan's file, read back. People edit such files, so nothing in one is believed: it is held to the plan's form here,
and what it says of the account is found out anew by apply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from drivetrain.base import json_text
from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.deploy.planning.forecast import Forecast
from drivetrain.targets.sagemaker.deploy.planning.plan import (
    FORMAT,
    DeploymentPlan,
    Property,
    TriggerChange,
    Upload,
)
from drivetrain.targets.sagemaker.document.difference.change import Change

ACTIONS = ("create", "update", "none")
_TEXTS = ("pipeline", "region", "account", "action", "state", "code", "definition_sha256")
_LISTS = (
    "changes",
    "properties",
    "triggers",
    "uploads",
    "drift",
    "overwritten",
    "discarded",
    "steps",
    "notes",
)
_ORIGIN = {"target": str, "definition": str, "name": str, "config": str, "set": list}
MAKE_ONE = "Make a new one: drivetrain plan PIPELINE --out FILE"
Item = TypeVar("Item")


class _NoPlanError(Exception):
    """What is wrong with it."""


def read_plan(content: str | bytes, source: str) -> DeploymentPlan:
    """The plan in a file's text.

    Raises:
        UserError: it is none.
    """
    value = json_text.parse(content, source)
    if not isinstance(value, dict):
        raise UserError(f"{source}: this is no plan. {MAKE_ONE}")
    try:
        return from_json(value)
    except UserError as error:
        raise UserError(f"{source}: {error}") from None


def from_json(said: Mapping[str, Any]) -> DeploymentPlan:
    """The inverse of Plan.to_json.

    Raises:
        UserError: no plan, or one of another version's format.
    """
    if "format" not in said:
        raise UserError(f"This is no plan: `format` is missing. {MAKE_ONE}")
    if said["format"] != FORMAT:
        raise UserError(f"This is no plan of format {FORMAT}; given {said['format']!r:.40}. {MAKE_ONE}")
    try:
        _check(said)
        return _read(said)
    except (_NoPlanError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = str(error) if isinstance(error, _NoPlanError) else repr(error)
        if isinstance(error, KeyError):
            what = f"`{error.args[0]}` is missing"
        raise UserError(f"This is no plan: {what:.160}. {MAKE_ONE}") from None


def _check(said: Mapping[str, Any]) -> None:
    for name in _TEXTS:
        _must(isinstance(said[name], str), name, said[name], "text")
    _must(said["action"] in ACTIONS, "action", said["action"], " or ".join(ACTIONS))
    for name in _LISTS:
        _must(isinstance(said[name], list), name, said[name], "a list")
    for name in ("notes", "discarded"):
        _must(_are(said[name], str), name, said[name], "a list of texts")
    for name in ("foreign", "adopted"):
        _must(isinstance(said[name], bool), name, said[name], "true or false")
    for name in ("owner", "lost", "last_write"):
        _must(isinstance(said[name], str | None), name, said[name], "text or null")
    for name in ("cost", "permissions", "origin"):
        _must(isinstance(said[name], dict | None), name, said[name], "an object or null")
    record: Any = said["record"]
    good = record is None or (isinstance(record, list) and len(cast("list[Any]", record)) == 2)
    _must(good, "record", said["record"], "null or two hashes")
    origin: Any = said["origin"]
    if origin is not None:
        for name, kind in _ORIGIN.items():
            good = _are(origin[name], str) if kind is list else isinstance(origin[name], str | None)
            _must(good, f"origin.{name}", origin[name], "a list of texts" if kind is list else "text or null")
        withheld = origin.get("withheld", [])
        _must(_are(withheld, str), "origin.withheld", withheld, "a list of texts")


def _must(good: bool, name: str, given: object, wanted: str) -> None:
    if not good:
        raise _NoPlanError(f"{name} is {given!r:.60}, and should be {wanted}")


def _are(given: object, kind: type) -> bool:
    return isinstance(given, list) and all(isinstance(item, kind) for item in cast("list[Any]", given))


def _read(said: Mapping[str, Any]) -> DeploymentPlan:
    record: Any = said["record"]
    return DeploymentPlan(
        pipeline=said["pipeline"],
        region=said["region"],
        account=said["account"],
        action=said["action"],
        state=said["state"],
        code=said["code"],
        definition_sha256=said["definition_sha256"],
        changes=_each(said, "changes", Change.from_json),
        properties=_each(said, "properties", lambda item: Property(**item)),
        triggers=_each(
            said,
            "triggers",
            lambda item: TriggerChange(item["action"], item["kind"], item["name"], tuple(item["details"])),
        ),
        uploads=_each(said, "uploads", lambda item: Upload(**item)),
        record=None if record is None else (record[0], record[1]),
        drift=_each(said, "drift", Change.from_json),
        overwritten=_each(said, "overwritten", Change.from_json),
        foreign=said["foreign"],
        owner=said["owner"],
        adopted=said["adopted"],
        lost=said["lost"],
        last_write=said["last_write"],
        discarded=tuple(said["discarded"]),
        steps=_each(said, "steps", Forecast.from_json),
        notes=tuple(said["notes"]),
        cost=said["cost"],
        permissions=said["permissions"],
        origin=said["origin"],
    )


def _each(said: Mapping[str, Any], name: str, read: Callable[[Any], Item]) -> tuple[Item, ...]:
    for item in said[name]:
        _must(isinstance(item, dict), f"an entry of {name}", item, "an object")
    return tuple(read(item) for item in said[name])
