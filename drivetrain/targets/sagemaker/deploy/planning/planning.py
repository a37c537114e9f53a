"""What apply would do: the code compared with what is deployed. Pure, but for reading the account.

    wanted = desired(compiled, account)
    plan = make_plan(account, wanted, deployed.read(account, wanted.name))
    print("\n".join(plan_words.lines(plan)))

A plan is JSON and comes back the same, so that it can be reviewed in one place and applied in another: apply refuses it
when the code or the account are no longer what it was made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from drivetrain.base.formatting import moment_with_zone
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.deployed import (
    ALL_OURS,
    APPLIED,
    Deployed,
    LostError,
    base_of,
    fingerprint,
)
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.objects import missing, size_of
from drivetrain.targets.sagemaker.deploy.ownership import NOBODY, Claim, claim
from drivetrain.targets.sagemaker.deploy.planning.account_resource_words import differing as in_words
from drivetrain.targets.sagemaker.deploy.planning.account_resources import (
    RULES,
    SCHEDULES,
    changes,
    compare,
    touched,
    trigger_fields,
)
from drivetrain.targets.sagemaker.deploy.planning.forecast import forecast
from drivetrain.targets.sagemaker.deploy.planning.limits import warnings
from drivetrain.targets.sagemaker.deploy.planning.plan import DeploymentPlan, Property, TriggerChange, Upload
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger, stray_triggers
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.document.difference.difference import Change, differences
from drivetrain.targets.sagemaker.document.difference.value_words import masked, without_secrets

Json = dict[str, Any]


def make_plan(
    account: Account,
    wanted: Desired,
    deployed: Deployed | None,
    *,
    discarded: Sequence[str] = (),
    adopted: bool = False,
    origin: Json | None = None,
    cost: Callable[[], Json] | None = None,
    permissions: Callable[[], Json] | None = None,
) -> DeploymentPlan:
    """Compare the code with what is deployed.

    Args:
        deployed: what `deployed.read` gave.
        discarded: places (as in the plan's drift, or the beginning of one), or `all`, whose drift may be overwritten.
        adopted: it may be taken over from another owner.
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
    claimed = claim(account, wanted.name, wanted.owner, deployed)
    drifted = _drift(account, wanted, None if deployed is None else claimed.seen(deployed), differing)
    if deployed is None:
        strays = {each.key for each in starting if each.starts(wanted.arn)}
        claimed, undone = _of_strays(claimed, [each for each in triggers if (each.kind, each.name) in strays])
        drifted = replace(drifted, overwritten=(*undone, *_turned_away(wanted, starting)))
    record = None
    if deployed is not None and any(
        deployed.tags.get(tag) != value for tag, value in zip(ALL_OURS, _tags(wanted), strict=True)
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
        owner=claimed.other,
        adopted=adopted,
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


def _of_strays(claimed: Claim, undone: Sequence[TriggerChange]) -> tuple[Claim, tuple[Change, ...]]:
    """Whose the rules and schedules of a pipeline are that is gone, and those of another one that applying undoes."""
    if claimed.other is None and (claimed.is_known or not undone):
        return claimed, ()
    kinds = {"rule": RULES, "schedule": SCHEDULES}
    gone = tuple(Change((kinds[each.kind], each.name), "there", each.action) for each in undone)
    return replace(claimed, other=claimed.other or f"{NOBODY}, but it has rules or schedules"), gone


def _turned_away(wanted: Desired, starting: Sequence[AccountTrigger]) -> tuple[Change, ...]:
    """Schedules of a pipeline that is gone, which somebody has made to start something else."""
    return tuple(
        Change((SCHEDULES, trigger.name, "Target", "Arn"), trigger.arguments["Target"].get("Arn"), wanted.arn)
        for trigger in starting
        if not trigger.starts(wanted.arn)
    )


def _tags(wanted: Desired) -> tuple[str | None, ...]:
    """What our tags hold when all is applied: those of what is being written are gone then."""
    return wanted.sha256, None, digest_of(wanted.surroundings), None, wanted.owner.tag


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
