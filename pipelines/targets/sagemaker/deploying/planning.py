"""What apply would do: the code compared with what is deployed. Pure, but for reading the account.

    plan = make_plan(account, desired(compiled, account))
    print("\n".join(plan.lines()))

A plan is JSON and comes back the same, so that it can be reviewed in one place and applied in another: apply refuses it
when the code or the account are no longer what it was made of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from drivetrain.pipelines.definition import json_text
from drivetrain.pipelines.definition.difference import Change, differences
from drivetrain.pipelines.definition.place import Place, text
from drivetrain.pipelines.definition.value_words import masked
from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.targets.sagemaker.deploying.account import Account
from drivetrain.pipelines.targets.sagemaker.deploying.deployed import APPLIED, APPLYING, Deployed, base_of, fingerprint
from drivetrain.pipelines.targets.sagemaker.deploying.desired import Desired
from drivetrain.pipelines.targets.sagemaker.deploying.forecast import Forecast, forecast
from drivetrain.pipelines.targets.sagemaker.deploying.limits import warnings
from drivetrain.pipelines.targets.sagemaker.deploying.objects import missing, size_of
from drivetrain.pipelines.targets.sagemaker.deploying.triggers import Trigger

FORMAT = 1
ALL = "all"
Json = dict[str, Any]


@dataclass(frozen=True)
class Property:
    """Something of the pipeline beside its definition: role, description, display name, parallel steps, a tag."""

    name: str
    old: str | int | None
    new: str | int | None

    def to_json(self) -> Json:
        return {"name": self.name, "old": self.old, "new": self.new}


@dataclass(frozen=True)
class TriggerChange:
    """A rule or schedule that is made, changed or taken away; `details` are lines for people."""

    action: Literal["create", "update", "delete"]
    kind: str
    name: str
    details: tuple[str, ...] = ()

    def to_json(self) -> Json:
        return {"action": self.action, "kind": self.kind, "name": self.name, "details": list(self.details)}


@dataclass(frozen=True)
class Upload:
    """An object that is not in the bucket yet."""

    uri: str
    bytes: int

    def to_json(self) -> Json:
        return {"uri": self.uri, "bytes": self.bytes}


@dataclass(frozen=True)
class Plan:
    """What apply would do, and what it was made of."""

    pipeline: str
    region: str
    account: str
    action: Literal["create", "update", "none"]
    state: str
    """Fingerprint of what was deployed."""
    code: str
    """Fingerprint of what the code says."""
    definition_sha256: str
    changes: tuple[Change, ...] = ()
    properties: tuple[Property, ...] = ()
    triggers: tuple[TriggerChange, ...] = ()
    uploads: tuple[Upload, ...] = ()
    record: tuple[str | None, str] | None = None
    """Hash that the tag holds and the one that it will hold, where only the record of what was applied is behind."""
    drift: tuple[Change, ...] = ()
    """What others changed since the last apply."""
    overwritten: tuple[Change, ...] = ()
    """The part of it that is not in the code, so that applying would undo it."""
    foreign: bool = False
    """The pipeline was not made by apply."""
    discarded: tuple[str, ...] = ()
    """Places, or `all`, whose drift may be overwritten."""
    steps: tuple[Forecast, ...] = ()
    notes: tuple[str, ...] = ()
    cost: Json | None = None
    permissions: Json | None = None
    origin: Json | None = field(default=None)
    """Of what it was compiled: target, config, set; what `apply` compiles again."""

    @property
    def is_empty(self) -> bool:
        """Whether everything is as the code says."""
        return self.action == "none"

    def refusal(self) -> str | None:
        """Why it must not be applied: edits of others would be lost. None where it may."""
        lost = [change for change in self.overwritten if not _named(change.place, self.discarded)]
        if not lost:
            return None
        shown = ", ".join(change.where for change in lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
        if self.foreign:
            return (
                f"Pipeline {self.pipeline!r} exists and was not made by `drivetrain apply`; applying would overwrite "
                f"it ({shown}). Take it over as it is: drivetrain pull --adopt, or overwrite it: --discard all"
            )
        return (
            f"Pipeline {self.pipeline!r} was edited since the last apply, and applying would undo it: {shown}. Keep "
            "the edits: drivetrain pull, or give them up: --discard PLACE (repeatable) or --discard all"
        )

    def to_json(self) -> Json:
        """A JSON object; `from_json` gives an equal plan."""
        return {
            "format": FORMAT,
            "pipeline": self.pipeline,
            "region": self.region,
            "account": self.account,
            "action": self.action,
            "state": self.state,
            "code": self.code,
            "definition_sha256": self.definition_sha256,
            "changes": [change.to_json() for change in self.changes],
            "properties": [item.to_json() for item in self.properties],
            "triggers": [item.to_json() for item in self.triggers],
            "uploads": [item.to_json() for item in self.uploads],
            "record": None if self.record is None else list(self.record),
            "drift": [change.to_json() for change in self.drift],
            "overwritten": [change.to_json() for change in self.overwritten],
            "foreign": self.foreign,
            "discarded": list(self.discarded),
            "steps": [item.to_json() for item in self.steps],
            "notes": list(self.notes),
            "cost": self.cost,
            "permissions": self.permissions,
            "origin": self.origin,
        }

    @staticmethod
    def from_json(said: Mapping[str, Any]) -> Plan:
        """The inverse of to_json.

        Raises:
            UserError: no plan, or one of another version's format.
        """
        if said.get("format") != FORMAT:
            raise UserError(f"This is no plan of format {FORMAT}; given {said.get('format')!r:.40}. Make a new one.")
        try:
            record: Any = said["record"]
            return Plan(
                pipeline=said["pipeline"],
                region=said["region"],
                account=said["account"],
                action=said["action"],
                state=said["state"],
                code=said["code"],
                definition_sha256=said["definition_sha256"],
                changes=tuple(Change.from_json(item) for item in said["changes"]),
                properties=tuple(Property(**item) for item in said["properties"]),
                triggers=tuple(
                    TriggerChange(item["action"], item["kind"], item["name"], tuple(item["details"]))
                    for item in said["triggers"]
                ),
                uploads=tuple(Upload(**item) for item in said["uploads"]),
                record=None if record is None else (record[0], record[1]),
                drift=tuple(Change.from_json(item) for item in said["drift"]),
                overwritten=tuple(Change.from_json(item) for item in said["overwritten"]),
                foreign=said["foreign"],
                discarded=tuple(said["discarded"]),
                steps=tuple(Forecast.from_json(item) for item in said["steps"]),
                notes=tuple(said["notes"]),
                cost=said["cost"],
                permissions=said["permissions"],
                origin=said["origin"],
            )
        except (KeyError, TypeError, IndexError) as error:
            raise UserError(f"This is no plan: {error!r:.120}. Make a new one: drivetrain plan --out FILE") from None

    def text(self) -> str:
        """The plan's file."""
        return json_text.text_of(cast("Any", self.to_json()), indent=2)


def read_plan(content: str | bytes, source: str) -> Plan:
    """The plan in a file's text.

    Raises:
        UserError: it is none.
    """
    value = json_text.parse(content, source)
    if not isinstance(value, dict):
        raise UserError(f"{source}: this is no plan. Make one: drivetrain plan PIPELINE --out FILE")
    try:
        return Plan.from_json(value)
    except UserError as error:
        raise UserError(f"{source}: {error}") from None


def make_plan(
    account: Account,
    wanted: Desired,
    deployed: Deployed | None,
    *,
    discarded: Sequence[str] = (),
    origin: Json | None = None,
    cost: Callable[[], Json] | None = None,
    permissions: Callable[[], Json] | None = None,
) -> Plan:
    """Compare the code with what is deployed.

    Args:
        deployed: what `deployed.read` gave.
        discarded: places (as in the plan's drift, or the beginning of one), or `all`, whose drift may be overwritten.
        cost: gives what an execution costs (prices/estimate.py); asked where something changes.
        permissions: gives what roles must be allowed from then on (consequences.py); asked likewise.

    Raises:
        UserError: AWS refuses to be read, or the record of what was applied last is gone.
    """
    uploads = tuple(Upload(asset.uri, size_of(asset)) for asset in missing(account, wanted.assets))
    old = None if deployed is None else deployed.definition
    differing = differences(old, wanted.definition) if old is not None else ()
    changes = _masked(differing)
    properties = _properties(wanted, deployed)
    triggers = _trigger_changes(wanted.triggers, () if deployed is None else deployed.triggers)
    drift, overwritten, foreign = _drift(account, wanted, deployed, differing)
    record = None
    if deployed is not None and (deployed.tags.get(APPLIED) != wanted.sha256 or APPLYING in deployed.tags):
        record = (deployed.tags.get(APPLIED), wanted.sha256)
    action: Literal["create", "update", "none"] = "create" if deployed is None else "update"
    if deployed is not None and not (changes or properties or triggers or uploads or record):
        action = "none"
    return Plan(
        pipeline=wanted.name,
        region=account.region,
        account=account.number,
        action=action,
        state=fingerprint(deployed),
        code=wanted.fingerprint,
        definition_sha256=wanted.sha256,
        changes=changes,
        properties=properties,
        triggers=triggers,
        uploads=uploads,
        record=record,
        drift=_masked(drift),
        overwritten=_masked(overwritten),
        foreign=foreign,
        discarded=tuple(discarded),
        steps=forecast(old, wanted.definition, changes),
        notes=(*wanted.notes, *warnings(wanted)),
        cost=None if cost is None or action == "none" else cost(),
        permissions=None if permissions is None or action == "none" else permissions(),
        origin=origin,
    )


def _masked(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Without what looks like a secret by its name: a plan is kept and shown, and applying needs only the places."""
    return tuple(masked(change) for change in changes)


def _drift(
    account: Account, wanted: Desired, deployed: Deployed | None, changes: tuple[Change, ...]
) -> tuple[tuple[Change, ...], tuple[Change, ...], bool]:
    """What others changed, the part of it that is not in the code, and whether the pipeline is not ours at all."""
    if deployed is None:
        return (), (), False
    base = base_of(account, deployed, wanted.root)
    if base is None:
        return (), changes, True
    drift = differences(base, deployed.definition)
    return drift, tuple(change for change in drift if _touched(change.place, changes)), False


def _touched(place: Place, changes: tuple[Change, ...]) -> bool:
    """Whether the code says something else at the place, at a part of it, or at what it is part of."""
    return any(_begins(place, change.place) or _begins(change.place, place) for change in changes)


def _begins(place: Place, start: Place) -> bool:
    return place[: len(start)] == start


def _named(place: Place, named: Sequence[str]) -> bool:
    """Whether one of the names is the place's, the beginning of it up to a dot, or `all`."""
    whole = text(place)
    return any(name == ALL or whole == name or whole.startswith((f"{name}.", f"{name}[")) for name in named)


def _properties(wanted: Desired, deployed: Deployed | None) -> tuple[Property, ...]:
    if deployed is None:
        return ()
    found = [
        Property(name, old, new)
        for name, old, new in (
            ("role", deployed.role, wanted.role),
            ("display name", deployed.display_name, wanted.display_name),
            ("description", deployed.description, wanted.description),
            ("parallel steps", deployed.max_parallel, wanted.max_parallel),
        )
        if old != new
    ]
    # Tags that the code does not name are somebody else's: of an organisation's cost centre, of Studio.
    found += [
        Property(f"tag {name}", deployed.tags.get(name), value)
        for name, value in wanted.tags.items()
        if deployed.tags.get(name) != value
    ]
    return tuple(found)


def _trigger_changes(wanted: Sequence[Trigger], there: Sequence[Trigger]) -> tuple[TriggerChange, ...]:
    old = {trigger.key: trigger for trigger in there}
    new = {trigger.key: trigger for trigger in wanted}
    found: list[TriggerChange] = []
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if before is None and after is not None:
            found.append(TriggerChange("create", *key, _spelled(after)))
        elif after is None:
            found.append(TriggerChange("delete", *key))
        elif before is not None and before != after:
            found.append(TriggerChange("update", *key, _differing(before, after)))
    return tuple(found)


def _spelled(trigger: Trigger) -> tuple[str, ...]:
    names = ("ScheduleExpression", "ScheduleExpressionTimezone", "EventPattern", "State")
    return tuple(f"{name} {trigger.arguments[name]}" for name in names if name in trigger.arguments)


def _differing(before: Trigger, after: Trigger) -> tuple[str, ...]:
    old, new = before.to_json(), after.to_json()
    lines: list[str] = []
    for part in ("arguments", "tags"):
        for name in sorted({*old[part], *new[part]}):
            one, other = old[part].get(name), new[part].get(name)
            if one != other:
                lines.append(f"{name} {_short(one)} -> {_short(other)}")
    if old["targets"] != new["targets"]:
        lines.append("its targets differ")
    return tuple(lines)


def _short(value: Any) -> str:
    shown = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return shown if len(shown) <= 80 else shown[:77] + "..."
