"""What a deployed pipeline is beside its definition: properties, tags, and what starts it.

Apply keeps what it wrote of these beside the definition, as `{root}/{pipeline}/applied/{sha256}.surroundings.json`, and
the hash as a tag of its own. So an edit in the console or in Studio, such as a schedule that somebody disabled, is told
from a change of the code, field by field: `pipeline.Description`, `schedules.NAME.State`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from drivetrain.base import json_text
from drivetrain.base.errors import UserError
from drivetrain.catalog import quotas
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.deployed import AROUND, Deployed
from drivetrain.targets.sagemaker.deploy.objects import get_text
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger, desired_triggers
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change
from drivetrain.targets.sagemaker.document.difference.place import Place, parse, text
from drivetrain.targets.sagemaker.settings import settings_of

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.targets.sagemaker.settings import Settings

APPLIED_AROUND, APPLYING_AROUND = AROUND
"""The tag with the hash of the surroundings that apply wrote last, and the one of those that it is writing: after
a crash each field is of the one or of the other."""

PIPELINE, RULES, SCHEDULES = "pipeline", "rules", "schedules"
Fields: TypeAlias = dict[Place, Any]
"""Place -> a JSON value without members: `("schedules", NAME, "State")` -> "DISABLED"."""

_EVENT = "<aws.events.event.json>"
_WITH_JSON = ("EventPattern", "Input", "InputTemplate")


class Pipe(Protocol):
    """What Deployed and Desired have in common."""

    @property
    def name(self) -> str: ...
    @property
    def arn(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def display_name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def max_parallel(self) -> int: ...
    @property
    def tags(self) -> Mapping[str, str]: ...
    @property
    def triggers(self) -> tuple[AccountTrigger, ...]: ...


def fields(of: Pipe, tags: Iterable[str]) -> Fields:
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
    """Those of one rule or schedule; `arn` is the pipeline's, of which each side may have another spelling."""
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
    """What a text of JSON says; the text where it is none."""
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
    """Where the surroundings of that hash are kept."""
    return f"{root}/{pipeline}/applied/{sha256}.surroundings.json"


def base_of(account: Account, deployed: Deployed, root: str, tags: Iterable[str]) -> Fields | None:
    """What apply wrote last, from which drift is told; None where nobody can say.

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
    """What differs; a rule or schedule that only one has is one change.

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
    """What others changed, and what of it applying would undo."""

    drift: tuple[Change, ...] = ()
    lost: tuple[Change, ...] = ()
    """Where nobody knows what apply wrote last, it is all that is there and differs from the code."""
    is_known: bool = True
    """Whether it is known what apply wrote last."""


def compare(account: Account, wanted: Pipe, deployed: Deployed, root: str) -> Compared:
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
    return Compared(drift, tuple(one for one in drift if touched(one.place, to_come)))


def _is_said(change: Change, deployed: Deployed) -> bool:
    """Whether somebody gave the old value: what the service gives where nobody did is no loss."""
    defaults: dict[Place, Any] = {
        (PIPELINE, "DisplayName"): deployed.name,
        (PIPELINE, "Description"): "",
        (PIPELINE, "MaxParallelExecutionSteps"): quotas.DEFAULT_PARALLEL_STEPS,
    }
    return change.old is not ABSENT and change.old != defaults.get(change.place, ABSENT)


@dataclass(frozen=True)
class _Code:
    """What a pipeline says of itself, as far as it is needed to see what the account has beside it."""

    name: str
    arn: str
    role: str
    display_name: str
    description: str
    max_parallel: int
    tags: Mapping[str, str]
    triggers: tuple[AccountTrigger, ...]


def edits_beside(account: Account, pipeline: Pipeline, deployed: Deployed) -> tuple[Change, ...]:
    """What others changed beside the definition and the code does not say: no patch can hold it. Where nobody knows
    what apply wrote last, it is what is there and differs from the code.

    Raises:
        UserError: AWS refuses; a trigger needs a role or a queue that the settings do not name.
    """
    place = settings_of(pipeline.deployment)
    names = tuple(pipeline.tags)
    base = base_of(account, deployed, place.root, names)
    drift = () if base is None else changes(base, fields(deployed, names), names)
    # What the triggers become needs settings that a pull can do without where nothing is to be said of them.
    asked = any(one.place[0] != PIPELINE for one in drift) if base is not None else bool(deployed.triggers)
    code = _Code(
        name=pipeline.name,
        arn=deployed.arn,
        role=_role(place, deployed),
        display_name=pipeline.display_name or pipeline.name,
        description=pipeline.description or "",
        max_parallel=pipeline.max_parallel_steps or quotas.DEFAULT_PARALLEL_STEPS,
        tags=pipeline.tags,
        triggers=desired_triggers(pipeline, account, deployed.arn) if asked else deployed.triggers,
    )
    return _lost(account, code, deployed, place)


def edits_beside_definition(account: Account, name: str, place: Settings, deployed: Deployed) -> tuple[Change, ...]:
    """As `edits_beside`, for a definition that is deployed as it is and says nothing of what is beside it.

    Raises:
        ServiceError: AWS refuses.
    """
    code = _Code(
        name=name,
        arn=deployed.arn,
        role=_role(place, deployed),
        display_name=name,
        description="",
        max_parallel=quotas.DEFAULT_PARALLEL_STEPS,
        tags={},
        triggers=(),
    )
    return _lost(account, code, deployed, place)


def _role(place: Settings, deployed: Deployed) -> str:
    """Where the settings name no role, nothing is said of it."""
    return deployed.role if place.role == type(place)().role else place.role


def _lost(account: Account, code: _Code, deployed: Deployed, place: Settings) -> tuple[Change, ...]:
    """What applying would undo."""
    found = compare(account, code, deployed, place.root)
    return found.lost if found.is_known else tuple(replace(one, old=one.new, new=one.old) for one in found.lost)


def touched(place: Place, by: Iterable[Change]) -> bool:
    """Whether one of the changes is at the place, at a part of it, or at what it is part of."""
    return any(_begins(place, change.place) or _begins(change.place, place) for change in by)


def _begins(place: Place, start: Place) -> bool:
    return place[: len(start)] == start
