"""Compare the code with what is deployed, by meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from drivetrain.assets.uploads import size_of
from drivetrain.base.errors import UserError, and_more
from drivetrain.deploying.plan import ALL, Difference, Plan, Terms, TriggerChange, Upload
from drivetrain.targets.kubeflow.deploy.deployed import Deployed, RecurringRun, digest, fingerprint, mark_of
from drivetrain.targets.kubeflow.deploy.desired import Desired, Recurring, when
from drivetrain.targets.kubeflow.deploy.differences import differences
from drivetrain.targets.kubeflow.deploy.objects import Objects
from drivetrain.targets.kubeflow.settings import NAME


def make_plan(objects: Objects, wanted: Desired, deployed: Deployed | None, terms: Terms) -> Plan:
    """Compare the code with what is deployed.

    Raises:
        UserError: the storage cannot be asked, its folder is another owner's, or `terms.discarded` holds something else
            than `all`.
    """
    if wrong := [place for place in terms.discarded if place != ALL]:
        raise UserError(f"--discard {wrong[0]!r:.60}: there is no such place on Kubeflow. Allowed: {ALL}.")
    recorded = wanted.owner.recorded(objects, wanted.root)
    owner = None if deployed is None else deployed.other(wanted.root, wanted.project)
    owner = owner or wanted.owner.other(recorded)
    uploads = tuple(Upload(uri=asset.uri, bytes=size_of(asset)) for asset in objects.missing(wanted.assets))
    newest = None if deployed is None else deployed.newest
    # Without a version of ours on top, ours goes there again: the newest is what the platform runs.
    is_newest = newest is not None and newest.sha256 == wanted.sha256 and owner is None
    number = 1 if deployed is None else deployed.number + 1
    version = None if is_newest else f"{number}-{wanted.sha256[:12]}"
    schedules = tuple(schedule_changes(wanted, deployed, replaced=version is not None))
    changes = () if newest is None or is_newest else differences(newest.spec, wanted.spec)
    drift = () if deployed is None else tuple(_drift(deployed))
    is_same = deployed is not None and not (version or schedules or uploads)
    return Plan(
        **dict(terms),
        target=NAME,
        pipeline=wanted.name,
        place=wanted.settings.where,
        action="none" if is_same else "create" if deployed is None else "update",
        state=fingerprint(deployed),
        code=wanted.fingerprint,
        definition_sha256=wanted.sha256,
        version=version,
        num_steps=wanted.num_steps,
        num_parameters=wanted.num_parameters,
        changes=tuple(Difference(text=line) for line in changes),
        triggers=schedules,
        uploads=uploads,
        storage=f"{wanted.root}/",
        drift=tuple(Difference(text=line) for line in drift),
        overwritten=tuple(Difference(text=line) for line in drift),
        foreign=deployed is not None and not deployed.is_ours,
        owner=owner,
        findings=tuple(_findings(owner, drift)),
        refusal=_refusal(wanted, deployed, terms, owner, drift, schedules),
        notes=(*wanted.notes, *_strangers(deployed)),
    )


def _refusal(
    wanted: Desired,
    deployed: Deployed | None,
    terms: Terms,
    owner: str | None,
    drift: Sequence[str],
    schedules: Sequence[TriggerChange],
) -> str | None:
    """Why it must not be applied: what others made would be lost. None where it may."""
    if ALL in terms.discarded:
        return None
    namespace = wanted.settings.namespace
    if owner is not None and not terms.adopted:
        going = ", ".join(f"schedule {each.name!r}" for each in schedules if each.action != "create")
        return (
            f"Pipeline {wanted.name!r} in namespace {namespace!r} is not this project's: it belongs to {owner}. "
            f"Applying would replace it{f', and {going}' if going else ''}. Give yours another name, or deploy with "
            "the settings of its owner. To take it over: --adopt"
        )
    if deployed is not None and not deployed.is_ours:
        return (
            f"Pipeline {wanted.name!r} exists in namespace {namespace!r} and was not made by `drivetrain apply`. Give "
            "yours another name, or take it over: --discard all"
        )
    if not drift:
        return None
    shown = and_more(drift, 2, "; ")
    return (
        f"Pipeline {wanted.name!r} was changed since the last apply, and applying would undo it: {shown}. Write it in "
        "the code, or give it up: --discard all"
    )


def _findings(owner: str | None, drift: Sequence[str]) -> Iterator[str]:
    if owner is not None:
        yield f"It belongs to {owner}"
    if drift:
        yield "Changed by others since the last apply, and undone by applying:"
        yield from (f"    {line}" for line in drift)


def kept_and_gone(
    wanted: Desired, deployed: Deployed | None, *, replaced: bool
) -> tuple[dict[str, RecurringRun], list[RecurringRun]]:
    """Schedule -> the recurring run that stays for it, and those of ours that go: outdated ones, and second ones.

    Args:
        replaced: the version that they start is not the newest any more.
    """
    kept: dict[str, RecurringRun] = {}
    gone: list[RecurringRun] = []
    bodies = {each.trigger: digest(each.body) for each in wanted.recurring}
    newest = None if deployed is None or deployed.newest is None else deployed.newest.id
    for each in () if deployed is None else deployed.recurring:
        if each.trigger is None:
            continue  # of others
        fits = bodies.get(each.trigger) == digest(each.said) and each.version_id == newest and not replaced
        if fits and each.trigger not in kept:
            kept[each.trigger] = each
        else:
            gone.append(each)
    return kept, gone


def schedule_changes(wanted: Desired, deployed: Deployed | None, *, replaced: bool) -> Iterator[TriggerChange]:
    """The recurring runs that are made, replaced or taken away."""
    kept, gone = kept_and_gone(wanted, deployed, replaced=replaced)
    old: dict[str, RecurringRun] = {}
    for each in gone:
        if each.trigger in kept or each.trigger in old:
            yield _change("delete", str(each.trigger), "a second recurring run for it")
        else:
            old[str(each.trigger)] = each
    for recurring in wanted.recurring:
        before = old.pop(recurring.trigger, None)
        if before is not None:
            yield _change("update", recurring.trigger, *_details(before, recurring))
        elif recurring.trigger not in kept:
            yield _change("create", recurring.trigger, when(recurring.body))
    for name in sorted(old):
        yield _change("delete", name)


def _change(action: Literal["create", "update", "delete"], name: str, *lines: str) -> TriggerChange:
    return TriggerChange(action=action, kind="schedule", name=name, lines=lines)


def _details(before: RecurringRun, after: Recurring) -> Iterator[str]:
    starts, will_start = when(before.said | {"mode": before.body["mode"]}), when(after.body)
    if starts != will_start:
        yield f"{starts} -> {will_start}"
    old, new = (body["runtime_config"]["parameters"] for body in (before.body, after.body))
    if old != new:
        changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
        yield f"parameters {', '.join(changed)}"
    yield "starts the new version" if before.body == after.body or old == new else "starts it with these"


def _drift(deployed: Deployed) -> Iterator[str]:
    newest = deployed.newest
    if newest is not None and newest.sha256 is None and deployed.number:
        yield f"version {newest.name!r} was uploaded"
    for each in deployed.recurring:
        mark = mark_of(each.said)
        if mark is not None and mark.get("digest") != digest(each.said):
            off = each.body["mode"] == "DISABLE"
            yield f"schedule {each.trigger!r} was {'switched off' if off else 'changed'}"


def _strangers(deployed: Deployed | None) -> Iterator[str]:
    for each in () if deployed is None else deployed.recurring:
        if each.trigger is None:
            yield f"recurring run {each.name!r} of others starts this pipeline, too; it is left alone"
