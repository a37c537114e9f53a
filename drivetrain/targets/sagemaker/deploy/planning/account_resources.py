"""The parts of a deployed pipeline beside its definition: properties, tags, and what starts it; and their changes as
people read them.

Apply keeps what it wrote of these beside the definition, as `{root}/{pipeline}/applied/{sha256}.surroundings.json`, and
the hash as a tag of its own. So edits in the console or in Studio, such as a disabled schedule, are distinguished from
changes of the code, field by field: `pipeline.Description`, `schedules.NAME.State`. For people:
`schedule 'nightly-daily-1f2e': state ENABLED -> DISABLED`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from drivetrain.base import json_text
from drivetrain.base.errors import UserError
from drivetrain.base.masking import looks_secret
from drivetrain.catalog import quotas
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.deployed import AROUND, AccountPipeline, Deployed
from drivetrain.targets.sagemaker.deploy.objects import get_text
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.document.difference import change_words
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change
from drivetrain.targets.sagemaker.document.difference.place import Place, parse, text
from drivetrain.targets.sagemaker.document.difference.value_words import MASK, arrow, masked, name_of

APPLIED_AROUND, APPLYING_AROUND = AROUND
"""The tag with the hash of the surroundings that apply wrote last, and the one of those that it is writing: after
a crash each field is of the one or of the other."""

PIPELINE, RULES, SCHEDULES = "pipeline", "rules", "schedules"
Fields: TypeAlias = dict[Place, Any]
"""Place -> a JSON value without members: `("schedules", NAME, "State")` -> "DISABLED"."""

_EVENT = "<aws.events.event.json>"
_WITH_JSON = ("EventPattern", "Input", "InputTemplate")
_KINDS = {RULES: "rule", SCHEDULES: "schedule"}
_WORDS = {
    "Arn": "target",
    "Description": "description",
    "DisplayName": "display name",
    "EndDate": "end",
    "EventPattern": "pattern",
    "FlexibleTimeWindow": "window",
    "Input": "input",
    "InputTemplate": "input",
    "MaxParallelExecutionSteps": "parallel steps",
    "RoleArn": "role",
    "SageMakerPipelineParameters": "parameter",
    "ScheduleExpression": "expression",
    "ScheduleExpressionTimezone": "time zone",
    "StartDate": "start",
    "State": "state",
    "Tags": "tag",
}
# What tells a reader nothing that the end of the place does not tell.
_SILENT = frozenset(("InputTransformer", "Target", "Value"))


def fields(of: AccountPipeline, tags: Iterable[str]) -> Fields:
    """All of it, place by place.

    Args:
        tags: names of the pipeline's tags that count; others are of other people.
    """
    found: Fields = {
        (PIPELINE, "RoleArn"): of.role,
        (PIPELINE, "DisplayName"): of.display_name,
        (PIPELINE, "Description"): of.description,
        (PIPELINE, "MaxParallelExecutionSteps"): of.max_parallel,
    }
    found |= {(PIPELINE, "Tags", name): of.tags[name] for name in tags if name in of.tags}
    for trigger in of.triggers:
        found |= trigger_fields(trigger, of.arn)
    return found


def trigger_fields(trigger: AccountTrigger, arn: str) -> Fields:
    """Those of one rule or schedule; `arn` is the pipeline's, which each side may spell differently."""
    said: dict[str, Any] = {"State": "ENABLED", **trigger.arguments}
    if trigger.kind == "rule":
        said["Targets"] = {str(target["Id"]): {**target, "Id": None} for target in trigger.targets}
    place = (RULES if trigger.kind == "rule" else SCHEDULES, trigger.name)
    return {
        where: value.replace(arn, arn.lower()) if isinstance(value, str) else value
        for where, value in _leaves(said, place)
        if value is not None
    }


def _leaves(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    if place[-1] in _WITH_JSON and isinstance(value, str):
        value = _inside(value)
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[str, Any]", value).items():
            if key == "PipelineParameterList":
                for parameter in item:
                    yield (*place, parameter["Name"], "Value"), parameter["Value"]
            else:
                # By a name of this spelling a value is known as that of what is named before it.
                yield from _leaves(item, (*place, "Value" if key == "value" else key))
    else:
        yield place, value


def _inside(given: str) -> Any:
    """Parse a text that is a JSON object; any other text stays."""
    try:
        read: Any = json.loads(given.replace(_EVENT, json.dumps(_EVENT)))
    except (ValueError, RecursionError):
        return given
    return cast("Any", read) if isinstance(read, dict) else given


def record_of(given: Fields) -> str:
    """The text that is kept: the same bytes for the same fields."""
    said = {text(place): given[place] for place in sorted(given, key=text)}
    return json.dumps(said, indent=1)


def record_uri(root: str, pipeline: str, sha256: str) -> str:
    """The URI of the surroundings with that hash."""
    return f"{root}/{pipeline}/applied/{sha256}.surroundings.json"


def base_of(account: Account, deployed: Deployed, root: str, tags: Iterable[str]) -> Fields | None:
    """Find what apply wrote last, the base for telling drift; None if it is not known.

    After a crash a field that is what either of two records says is as apply wrote it.
    """
    hashes = [deployed.tags[tag] for tag in (APPLIED_AROUND, APPLYING_AROUND) if tag in deployed.tags]
    now = fields(deployed, tags)
    if digest_of(record_of(now)) in hashes:
        return now
    read = [found for sha256 in dict.fromkeys(hashes) if (found := _read(account, deployed, root, sha256)) is not None]
    if not read:
        return None
    base: Fields = {}
    for place in dict.fromkeys(place for found in (*read, now) for place in found):
        said = [found.get(place, ABSENT) for found in read]
        value = now.get(place, ABSENT) if now.get(place, ABSENT) in said else said[0]
        if value is not ABSENT:
            base[place] = value
    return base


def _read(account: Account, deployed: Deployed, root: str, sha256: str) -> Fields | None:
    uri = record_uri(root, deployed.name, sha256)
    said = get_text(account, uri)
    if said is None or digest_of(said) != sha256:
        return None
    read = json_text.parse(said, uri)
    if not isinstance(read, dict):
        raise UserError(f"{uri}: this is no record of what was applied.")
    return {parse(place): value for place, value in read.items()}


def changes(old: Fields, new: Fields, tags: Iterable[str]) -> tuple[Change, ...]:
    """List the changes from `old` to `new`; a rule or schedule that only one of them has is one change.

    Args:
        tags: names of the pipeline's tags that count: one that the code does not name is left alone.
    """
    old, new = _current(old), _current(new)
    counted = set(tags)
    before, after = _triggers(old), _triggers(new)
    found: list[Change] = []
    for place in dict.fromkeys((*old, *new)):
        if place[0] == PIPELINE:
            if place[1] == "Tags" and place[2] not in counted:
                continue
        elif (place[:2] in before) != (place[:2] in after):
            one = Change(place[:2], before.get(place[:2], ABSENT), after.get(place[:2], ABSENT))
            if not found or found[-1].place != one.place:
                found.append(one)
            continue
        one, other = old.get(place, ABSENT), new.get(place, ABSENT)
        if one != other:
            found.append(Change(place, one, other))
    return tuple(found)


def _current(given: Fields) -> Fields:
    """Without starts that are over (`AccountTrigger.current`)."""
    now = time.time()
    return {place: value for place, value in given.items() if place[-1] != "StartDate" or value > now}


def _triggers(given: Fields) -> dict[Place, str]:
    """Each rule and schedule, with when it fires."""
    found: dict[Place, str] = {}
    for place, value in given.items():
        if place[0] != PIPELINE:
            found.setdefault(place[:2], "by events")
            if place[2:] == ("ScheduleExpression",):
                found[place[:2]] = str(value)
    return found


@dataclass(frozen=True)
class Compared:
    """The changes by others, and those of them that applying would undo."""

    drift: tuple[Change, ...] = ()
    lost: tuple[Change, ...] = ()
    """All that is there and differs from the code, if it is not known what apply wrote last."""
    is_known: bool = True
    """True if it is known what apply wrote last."""


def compare(account: Account, wanted: AccountPipeline, deployed: Deployed, root: str) -> Compared:
    """Compare, three ways, what the code says with what is there and what apply wrote last.

    Raises:
        ServiceError: AWS refuses.
    """
    names = tuple(wanted.tags)
    there, base = fields(deployed, names), base_of(account, deployed, root, names)
    to_come = changes(there, fields(wanted, names), names)
    if base is None:
        return Compared((), tuple(one for one in to_come if _is_said(one, deployed)), is_known=False)
    drift = changes(base, there, names)
    return Compared(drift, touched(drift, to_come))


def _is_said(change: Change, deployed: Deployed) -> bool:
    """Return True if the old value was given explicitly: losing a default of the service is no loss."""
    defaults: dict[Place, Any] = {
        (PIPELINE, "DisplayName"): deployed.name,
        (PIPELINE, "Description"): "",
        (PIPELINE, "MaxParallelExecutionSteps"): quotas.DEFAULT_PARALLEL_STEPS,
    }
    return change.old is not ABSENT and change.old != defaults.get(change.place, ABSENT)


def touched(changes: Iterable[Change], by: Iterable[Change]) -> tuple[Change, ...]:
    """Those at the place of one of the others, at a part of it, or at a whole that it is part of."""
    places = {change.place for change in by}
    wholes = {place[:length] for place in places for length in range(len(place))}
    return tuple(
        change
        for change in changes
        if change.place in wholes or any(change.place[:length] in places for length in range(len(change.place) + 1))
    )


def described(change: Change) -> str:
    """A change of a definition or of what is beside it, in one line."""
    root = change.place[0] if change.place else ""
    if root == PIPELINE:
        return differing(change)
    if root not in _KINDS:
        return change_words.describe(change)
    thing = f"{_KINDS[str(root)]} {str(change.place[1])!r}"
    if len(change.place) > 2:
        return f"{thing}: {differing(change)}"
    return f"{thing} added ({change.new})" if change.old is ABSENT else f"{thing} removed ({change.old})"


def told_by_pull(found: Sequence[Change]) -> tuple[str, ...]:
    """Lines about what others changed beside the definition, where no patch can keep it; none where nothing was."""
    if not found:
        return ()
    return (
        "Edited beside the definition; write it in the code, or apply with --discard PLACE:",
        *(f"    {described(change)}  ({change.where})" for change in found),
    )


def differing(change: Change) -> str:
    """Describe the change within the pipeline, rule or schedule that the place names; secrets are not shown."""
    root = change.place[0]
    below: Place = change.place[1:] if root == PIPELINE else change.place[2:]
    words = [_WORDS.get(str(name), str(name)) for name in below if name not in _SILENT]
    if below[:1] == ("Targets",):
        # The target's id says little where a rule has one.
        words = words[1:] if below[-1] != "Arn" else words[2:]
    if looks_secret(name_of(change.place)):
        return f"{' '.join(words)} changed ({MASK})"
    hidden = masked(change)
    line = f"{' '.join(words)} {arrow(_value(below, hidden.old), _value(below, hidden.new))}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def _value(place: Place, value: Any) -> Any:
    if place[-1] in ("StartDate", "EndDate") and isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).isoformat()
    if value == "":
        return "none"
    return json.dumps(value) if isinstance(value, dict | list) else value
