"""Plan what apply would do: the code compared with what is deployed. Pure, but for reading the account.

wanted = desired(compiled, account)
plan = make_plan(account, wanted, deployed.read(account, wanted.name))
print("\n".join(lines(plan)))                                             # deploying/plan.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from drivetrain.assets.uploads import size_of
from drivetrain.base.formatting import moment_with_zone
from drivetrain.deploying.plan import Difference, Plan, Terms, TriggerChange, Upload
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.deployed import ALL_OURS, APPLIED, Deployed, fingerprint
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.objects import missing
from drivetrain.targets.sagemaker.deploy.ownership import NOBODY, Claim, claim
from drivetrain.targets.sagemaker.deploy.planning.account_resources import (
    RULES,
    SCHEDULES,
    changes,
    described,
    differing,
    trigger_fields,
)
from drivetrain.targets.sagemaker.deploy.planning.consequences import consequences, cost_of, findings, warnings
from drivetrain.targets.sagemaker.deploy.planning.drift import Drift, find_drift
from drivetrain.targets.sagemaker.deploy.planning.forecast import forecast
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger, stray_triggers
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.document.difference.change_words import describe_each, one_line
from drivetrain.targets.sagemaker.document.difference.difference import Change, differences
from drivetrain.targets.sagemaker.document.difference.value_words import masked, without_secrets
from drivetrain.targets.sagemaker.settings import NAME


def make_plan(
    account: Account, wanted: Desired, deployed: Deployed | None, terms: Terms | None = None, *, whole: bool = False
) -> Plan:
    """Compare the code with what is deployed.

    Args:
        deployed: what `deployed.read` gave.
        whole: with what an execution costs and what roles must be allowed from then on, where something changes. It
            reads more of the account; apply goes by a plan without these.

    Raises:
        UserError: AWS refuses to be read, or the record of what was applied last is gone.
    """
    terms = terms or Terms()
    uploads = tuple(Upload(uri=asset.uri, bytes=size_of(asset)) for asset in missing(account, wanted.assets))
    old = None if deployed is None else deployed.definition
    differing = differences(old, wanted.definition) if old is not None else ()
    starting = stray_triggers(account, wanted.name, wanted.triggers) if deployed is None else deployed.triggers
    triggers = tuple(_trigger_changes(wanted, starting))
    claimed = claim(account, wanted.name, wanted.owner, deployed)
    if deployed is None:
        drift = _of_strays(claimed, wanted, starting, triggers)
    else:
        drift = find_drift(account, wanted, claimed.seen(deployed), differing)
        drift = replace(drift, owner=claimed.other, last_write=_last_write(deployed))
    drift = drift.without_secrets()
    altered = tuple(map(masked, differing))
    changed = (*_definition_changes(altered), *_properties(wanted, deployed))
    changed = (*changed, *_record(wanted, deployed, is_alone=not (changed or triggers)))
    is_same = deployed is not None and not (changed or triggers or uploads)
    steps = forecast(old, wanted.definition, altered)
    cost = permissions = None
    if whole and not is_same:
        cost = cost_of(account, wanted, deployed)
        permissions = consequences(account, wanted, old, None if deployed is None else deployed.role)
    is_new = deployed is None
    follows = () if is_same else findings(steps, permissions, cost, is_new=is_new)
    return Plan(
        **dict(terms),
        target=NAME,
        pipeline=wanted.name,
        place=account.where,
        action="none" if is_same else "create" if is_new else "update",
        state=fingerprint(deployed),
        code=wanted.fingerprint,
        definition_sha256=wanted.sha256,
        num_steps=len(wanted.definition["Steps"]),
        num_parameters=len(wanted.definition.get("Parameters") or ()),
        changes=changed,
        triggers=triggers,
        uploads=uploads,
        storage="the bucket",
        drift=tuple(map(_difference, drift.changes)),
        overwritten=tuple(map(_difference, drift.overwritten)),
        foreign=drift.foreign,
        owner=drift.owner,
        lost=drift.lost,
        last_write=drift.last_write,
        steps=steps,
        cost=cost,
        permissions=permissions,
        findings=(*drift.lines(is_new=is_new), *follows),
        refusal=drift.refusal(wanted.name, terms),
        notes=(*wanted.notes, *warnings(wanted)),
    )


def _difference(change: Change) -> Difference:
    return Difference(text=described(change), **change.to_json())


def _definition_changes(altered: tuple[Change, ...]) -> Iterator[Difference]:
    for change, line in zip(altered, describe_each(altered), strict=True):
        yield Difference(text=line, **change.to_json())


def _last_write(deployed: Deployed) -> str | None:
    said = [f"by {deployed.modified_by}"] if deployed.modified_by else []
    said += [] if deployed.modified is None else [f"at {moment_with_zone(deployed.modified)}"]
    return " ".join(said) or None


def _of_strays(
    claimed: Claim, wanted: Desired, starting: Sequence[AccountTrigger], triggers: Sequence[TriggerChange]
) -> Drift:
    """The drift of rules and schedules of a pipeline that is gone: another owner's that applying undoes, and those
    that an edit has made to start something else."""
    strays = {each.key for each in starting if each.starts(wanted.arn)}
    undone = [each for each in triggers if (each.kind, each.name) in strays]
    turned = tuple(
        Change((SCHEDULES, trigger.name, "Target", "Arn"), trigger.arguments["Target"].get("Arn"), wanted.arn)
        for trigger in starting
        if not trigger.starts(wanted.arn)
    )
    if claimed.other is None and (claimed.is_known or not undone):
        return Drift(overwritten=turned)
    kinds = {"rule": RULES, "schedule": SCHEDULES}
    gone = tuple(Change((kinds[each.kind], each.name), "there", each.action) for each in undone)
    return Drift(overwritten=(*gone, *turned), owner=claimed.other or f"{NOBODY}, but it has rules or schedules")


def _record(wanted: Desired, deployed: Deployed | None, *, is_alone: bool) -> Iterator[Difference]:
    """Yield one difference if our tags are out of date: when all is applied they hold these, and those of what is
    being written are gone."""
    if deployed is None:
        return
    tags = (wanted.sha256, None, digest_of(wanted.surroundings), None, wanted.owner.tag)
    if any(deployed.tags.get(tag) != value for tag, value in zip(ALL_OURS, tags, strict=True)):
        text = "the record of what was applied last is brought up to date" if is_alone else ""
        yield Difference(text=text, kind="record", old=deployed.tags.get(APPLIED), new=wanted.sha256)


def _properties(wanted: Desired, deployed: Deployed | None) -> Iterator[Difference]:
    """Find the differences in role, description, display name, parallel steps and tags."""
    if deployed is None:
        return
    compared: list[tuple[str, str | int | None, str | int | None]] = [
        ("role", deployed.role, wanted.role),
        ("display name", deployed.display_name, wanted.display_name),
        ("description", deployed.description, wanted.description),
        ("parallel steps", deployed.max_parallel, wanted.max_parallel),
        # Tags that the code does not name belong to others: an organisation's cost centre, Studio.
        *((f"tag {name}", deployed.tags.get(name), value) for name, value in wanted.tags.items()),
    ]
    for name, old, new in compared:
        if old != new:
            place = (name.removeprefix("tag "),)
            old, new = without_secrets(old, place), without_secrets(new, place)
            text = one_line(f"{name}: {_shown(old)} -> {_shown(new)}")
            yield Difference(text=text, place=name, kind="property", old=old, new=new)


def _shown(value: str | int | None) -> str:
    return "none" if value is None or value == "" else str(value)


def _trigger_changes(wanted: Desired, there: Sequence[AccountTrigger]) -> Iterator[TriggerChange]:
    old = {trigger.key: trigger for trigger in there}
    new = {trigger.key: trigger for trigger in wanted.triggers}
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        kind, name = key
        if before is None and after is not None:
            yield TriggerChange(action="create", kind=kind, name=name, lines=_spelled(after))
        elif after is None:
            yield TriggerChange(action="delete", kind=kind, name=name)
        elif before is not None and before.current != after.current:
            yield TriggerChange(action="update", kind=kind, name=name, lines=_differing(before, after, wanted.arn))


def _spelled(trigger: AccountTrigger) -> tuple[str, ...]:
    names = ("ScheduleExpression", "ScheduleExpressionTimezone", "EventPattern", "State")
    return tuple(f"{name} {trigger.arguments[name]}" for name in names if name in trigger.arguments)


def _differing(before: AccountTrigger, after: AccountTrigger, arn: str) -> tuple[str, ...]:
    found = changes(trigger_fields(before, arn), trigger_fields(after, arn), ())
    return tuple(differing(change) for change in found) or ("its tags",)
