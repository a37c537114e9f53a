"""What apply would do: the code compared with what is deployed. Pure, but for reading the account.

    wanted = desired(compiled, account)
    plan = make_plan(account, wanted, deployed.read(account, wanted.name))
    print("\n".join(plan_words.lines(plan)))

A plan is JSON and comes back the same, so that it can be reviewed in one place and applied in another: apply refuses it
when the code or the account are no longer what it was made of.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from drivetrain.base import json_text
from drivetrain.base.formatting import moment_with_zone
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.deployed import (
    APPLIED,
    AROUND,
    OURS,
    Deployed,
    LostError,
    base_of,
    fingerprint,
)
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.objects import missing, size_of
from drivetrain.targets.sagemaker.deploy.planning.account_resource_words import differing as in_words
from drivetrain.targets.sagemaker.deploy.planning.account_resources import (
    PIPELINE,
    SCHEDULES,
    changes,
    compare,
    touched,
    trigger_fields,
)
from drivetrain.targets.sagemaker.deploy.planning.forecast import Forecast, forecast
from drivetrain.targets.sagemaker.deploy.planning.limits import warnings
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger, stray_triggers
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.document.difference.difference import Change, differences
from drivetrain.targets.sagemaker.document.difference.place import ROOTS, is_named
from drivetrain.targets.sagemaker.document.difference.value_words import masked, without_secrets

FORMAT = 2
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
class DeploymentPlan:
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
    """What others changed since the last apply: in the definition, and beside it (account_resources.py)."""
    overwritten: tuple[Change, ...] = ()
    """The part of it that is not in the code, so that applying would undo it."""
    foreign: bool = False
    """The pipeline was not made by apply."""
    lost: str | None = None
    """Why it is not known what apply wrote last, where it did."""
    last_write: str | None = None
    """Who wrote the pipeline last, and when, as far as the service says it."""
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

    @property
    def as_given(self) -> str:
        """What names the pipeline and its settings on the command line, for commands that are advised."""
        origin = self.origin or {}
        words = ["-d", origin["definition"]] if origin.get("definition") else [origin.get("target") or self.pipeline]
        for option, value in (("--name", origin.get("name")), ("-c", origin.get("config"))):
            words += [option, value] if value else []
        return shlex.join([*words, *(word for each in origin.get("set", ()) for word in ("--set", each))])

    def refusal(self) -> str | None:
        """Why it must not be applied: edits of others would be lost. None where it may."""
        undone = [change for change in self.overwritten if not is_named(change.place, self.discarded)]
        if not undone:
            return None
        shown = ", ".join(change.where for change in undone[:3])
        shown += f" and {len(undone) - 3} more" if len(undone) > 3 else ""
        give_up = "--discard PLACE (repeatable) or --discard all"
        if self.foreign:
            return (
                f"Pipeline {self.pipeline!r} exists and was not made by `drivetrain apply`; applying would overwrite "
                f"it ({shown}). {self._advice(adopt=True)}, or overwrite it: {give_up}"
            )
        if self.lost is not None:
            return (
                f"{self.lost} Applying would overwrite what differs: {shown}. {self._advice(adopt=True)}, or overwrite "
                f"it: {give_up}"
            )
        # The service knows it of the pipeline, of its rules and schedules it does not.
        is_told = self.last_write is not None and any(change.place[0] in (*ROOTS, PIPELINE) for change in undone)
        written = f" (last written {self.last_write})" if is_told else ""
        return (
            f"Pipeline {self.pipeline!r} was edited since the last apply{written}, and applying would undo it: "
            f"{shown}. {self._advice(adopt=False)}, or give them up: {give_up}"
        )

    def _advice(self, *, adopt: bool) -> str:
        """How to keep what is there."""
        beside = all(change.place[0] not in ROOTS for change in self.overwritten)
        if beside:
            return "Keep what is there: write it in the code"
        if adopt:
            over = f"drivetrain pull {self.as_given} --adopt"
            return f"Take it over as it is: {over} (what the code changes since then is named by --discard)"
        return f"Keep the edits: drivetrain pull {self.as_given}"

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
            "lost": self.lost,
            "last_write": self.last_write,
            "discarded": list(self.discarded),
            "steps": [item.to_json() for item in self.steps],
            "notes": list(self.notes),
            "cost": self.cost,
            "permissions": self.permissions,
            "origin": self.origin,
        }

    def text(self) -> str:
        """The plan's file."""
        return json_text.text_of(cast("Any", self.to_json()), indent=2)


def make_plan(
    account: Account,
    wanted: Desired,
    deployed: Deployed | None,
    *,
    discarded: Sequence[str] = (),
    origin: Json | None = None,
    cost: Callable[[], Json] | None = None,
    permissions: Callable[[], Json] | None = None,
) -> DeploymentPlan:
    """Compare the code with what is deployed.

    Args:
        deployed: what `deployed.read` gave.
        discarded: places (as in the plan's drift, or the beginning of one), or `all`, whose drift may be overwritten.
        cost: gives what an execution costs; asked where something changes (whole_plan.py gives both).
        permissions: gives what roles must be allowed from then on; asked likewise.

    Raises:
        UserError: AWS refuses to be read, or the record of what was applied last is gone.
    """
    uploads = tuple(Upload(asset.uri, size_of(asset)) for asset in missing(account, wanted.assets))
    old = None if deployed is None else deployed.definition
    differing = differences(old, wanted.definition) if old is not None else ()
    altered = _masked(differing)
    properties = _properties(wanted, deployed)
    starting = stray_triggers(account, wanted.name, wanted.triggers) if deployed is None else deployed.triggers
    triggers = _trigger_changes(wanted, starting)
    drifted = _drift(account, wanted, deployed, differing)
    if deployed is None:
        drifted = replace(drifted, overwritten=_turned_away(wanted, starting))
    record = None
    if deployed is not None and any(
        deployed.tags.get(tag) != value for tag, value in zip((*OURS, *AROUND), _tags(wanted), strict=True)
    ):
        record = (deployed.tags.get(APPLIED), wanted.sha256)
    action: Literal["create", "update", "none"] = "create" if deployed is None else "update"
    if deployed is not None and not (altered or properties or triggers or uploads or record):
        action = "none"
    return DeploymentPlan(
        pipeline=wanted.name,
        region=account.region,
        account=account.number,
        action=action,
        state=fingerprint(deployed),
        code=wanted.fingerprint,
        definition_sha256=wanted.sha256,
        changes=altered,
        properties=properties,
        triggers=triggers,
        uploads=uploads,
        record=record,
        drift=_masked(drifted.changes),
        overwritten=_masked(drifted.overwritten),
        foreign=drifted.foreign,
        lost=drifted.lost,
        last_write=None if deployed is None else _last_write(deployed),
        discarded=tuple(discarded),
        steps=forecast(old, wanted.definition, altered),
        notes=(*wanted.notes, *warnings(wanted)),
        cost=None if cost is None or action == "none" else cost(),
        permissions=None if permissions is None or action == "none" else permissions(),
        origin=origin,
    )


def _masked(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Without what looks like a secret by its name: a plan is kept and shown, and applying needs only the places."""
    return tuple(masked(change) for change in changes)


def _last_write(deployed: Deployed) -> str | None:
    said = [f"by {deployed.modified_by}"] if deployed.modified_by else []
    said += [] if deployed.modified is None else [f"at {moment_with_zone(deployed.modified)}"]
    return " ".join(said) or None


@dataclass(frozen=True)
class _Drift:
    changes: tuple[Change, ...] = ()
    overwritten: tuple[Change, ...] = ()
    foreign: bool = False
    lost: str | None = None


def _drift(account: Account, wanted: Desired, deployed: Deployed | None, to_come: tuple[Change, ...]) -> _Drift:
    """What others changed, and the part of it that is not in the code; `to_come` is what the code's definition changes.

    Where nobody knows what apply wrote last, all that is there and differs counts as theirs.
    """
    if deployed is None:
        return _Drift()
    around = compare(account, wanted, deployed, wanted.root)
    try:
        base = base_of(account, deployed, wanted.root)
    except LostError as error:
        return _Drift(around.drift, (*to_come, *around.lost), lost=str(error))
    if base is None:
        return _Drift(around.drift, (*to_come, *around.lost), foreign=True)
    drift = differences(base, deployed.definition)
    overwritten = tuple(change for change in drift if touched(change.place, to_come))
    lost = None
    if not around.is_known and not overwritten:
        lost = (
            f"What apply wrote last to pipeline {deployed.name!r} beside its definition is not known: there is no "
            f"record of it in {wanted.root}/{deployed.name}/applied/."
        )
    return _Drift((*drift, *around.drift), (*overwritten, *around.lost), lost=lost)


def _turned_away(wanted: Desired, starting: Sequence[AccountTrigger]) -> tuple[Change, ...]:
    """Schedules of a pipeline that is gone, which somebody has made to start something else."""
    return tuple(
        Change((SCHEDULES, trigger.name, "Target", "Arn"), trigger.arguments["Target"].get("Arn"), wanted.arn)
        for trigger in starting
        if not trigger.starts(wanted.arn)
    )


def _tags(wanted: Desired) -> tuple[str | None, ...]:
    """What our tags hold when all is applied: those of what is being written are gone then."""
    return wanted.sha256, None, digest_of(wanted.surroundings), None


def _properties(wanted: Desired, deployed: Deployed | None) -> tuple[Property, ...]:
    if deployed is None:
        return ()
    found = [
        _property(name, old, new)
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
        _property(f"tag {name}", deployed.tags.get(name), value)
        for name, value in wanted.tags.items()
        if deployed.tags.get(name) != value
    ]
    return tuple(found)


def _property(name: str, old: str | int | None, new: str | int | None) -> Property:
    """Without what looks like a secret: a plan is kept and shown."""
    place = (name.removeprefix("tag "),)
    return Property(name, without_secrets(old, place), without_secrets(new, place))


def _trigger_changes(wanted: Desired, there: Sequence[AccountTrigger]) -> tuple[TriggerChange, ...]:
    old = {trigger.key: trigger for trigger in there}
    new = {trigger.key: trigger for trigger in wanted.triggers}
    found: list[TriggerChange] = []
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if before is None and after is not None:
            found.append(TriggerChange("create", *key, _spelled(after)))
        elif after is None:
            found.append(TriggerChange("delete", *key))
        elif before is not None and before.current != after.current:
            found.append(TriggerChange("update", *key, _differing(before, after, wanted.arn)))
    return tuple(found)


def _spelled(trigger: AccountTrigger) -> tuple[str, ...]:
    names = ("ScheduleExpression", "ScheduleExpressionTimezone", "EventPattern", "State")
    return tuple(f"{name} {trigger.arguments[name]}" for name in names if name in trigger.arguments)


def _differing(before: AccountTrigger, after: AccountTrigger, arn: str) -> tuple[str, ...]:
    found = changes(trigger_fields(before, arn), trigger_fields(after, arn), ())
    return tuple(in_words(change) for change in found) or ("its tags",)
