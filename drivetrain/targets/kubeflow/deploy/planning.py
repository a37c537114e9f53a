"""What applying would change: the code compared with what is deployed, by meaning.

A plan is JSON and comes back the same, so that it can be reviewed in one place and applied in another: apply refuses it
when the code or the cluster are no longer what it was made of. Nothing in a plan's file is believed but what it lets be
given up.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from drivetrain.base import json_text
from drivetrain.base.errors import UserError
from drivetrain.base.formatting import size as in_bytes
from drivetrain.targets.kubeflow.deploy.deployed import Deployed, RecurringRun, digest, fingerprint, mark_of
from drivetrain.targets.kubeflow.deploy.desired import Desired, Recurring, when
from drivetrain.targets.kubeflow.deploy.differences import differences
from drivetrain.targets.kubeflow.deploy.objects import Objects, size_of

FORMAT = 2
ALL = "all"
SIGNS = {"create": "+", "update": "~", "delete": "-"}
MAKE_ONE = "Make a new one: drivetrain plan PIPELINE --out FILE"
Json = dict[str, Any]
Action = Literal["create", "update", "none"]


@dataclass(frozen=True)
class ScheduleChange:
    """A recurring run that is made, replaced or taken away; `details` are lines for people."""

    action: Literal["create", "update", "delete"]
    name: str
    details: tuple[str, ...] = ()

    def to_json(self) -> Json:
        return {"action": self.action, "name": self.name, "details": list(self.details)}


@dataclass(frozen=True)
class DeploymentPlan:
    """What apply would do, and what it was made of."""

    pipeline: str
    endpoint: str
    namespace: str
    action: Action
    state: str
    """Fingerprint of what was deployed."""
    code: str
    """Fingerprint of what the code says."""
    definition_sha256: str
    version: str | None = None
    """The version to be uploaded."""
    changes: tuple[str, ...] = ()
    """What changes of steps and parameters."""
    schedules: tuple[ScheduleChange, ...] = ()
    uploads: tuple[tuple[str, int], ...] = ()
    """URI and bytes of objects that are not in the storage."""
    drift: tuple[str, ...] = ()
    """What others changed since the last apply, which applying undoes."""
    foreign: bool = False
    """The pipeline was not made by apply."""
    owner: str | None = None
    """Whose it is, in words, where it is another one's."""
    adopted: bool = False
    """It may be taken over from its owner."""
    discarded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    origin: Json | None = None

    @property
    def is_empty(self) -> bool:
        """Whether everything is as the code says."""
        return self.action == "none"

    @property
    def as_given(self) -> str:
        """What names the pipeline and its settings on the command line."""
        origin = self.origin or {}
        words = [origin.get("target") or self.pipeline]
        for option, value in (("--target", origin.get("on")), ("-c", origin.get("config"))):
            words += [option, value] if value else []
        return shlex.join([*words, *(word for each in origin.get("set", ()) for word in ("--set", each))])

    def refusal(self) -> str | None:
        """Why it must not be applied: what others made would be lost. None where it may."""
        if ALL in self.discarded:
            return None
        if self.owner is not None and not self.adopted:
            going = ", ".join(f"schedule {each.name!r}" for each in self.schedules if each.action != "create")
            return (
                f"Pipeline {self.pipeline!r} in namespace {self.namespace!r} is not this project's: it belongs to "
                f"{self.owner}. Applying would replace it{f', and {going}' if going else ''}. Give yours another "
                "name, or deploy with the settings of its owner. To take it over: --adopt"
            )
        if not (self.foreign or self.drift):
            return None
        shown = "; ".join(self.drift[:2]) + (f" and {len(self.drift) - 2} more" if len(self.drift) > 2 else "")
        if self.foreign:
            return (
                f"Pipeline {self.pipeline!r} exists in namespace {self.namespace!r} and was not made by `drivetrain "
                "apply`. Give yours another name, or take it over: --discard all"
            )
        return (
            f"Pipeline {self.pipeline!r} was changed since the last apply, and applying would undo it: {shown}. Write "
            "it in the code, or give it up: --discard all"
        )

    def to_json(self) -> Json:
        """A JSON object; `from_json` gives an equal plan."""
        return {
            "for": "kubeflow",
            "format": FORMAT,
            "pipeline": self.pipeline,
            "endpoint": self.endpoint,
            "namespace": self.namespace,
            "action": self.action,
            "state": self.state,
            "code": self.code,
            "definition_sha256": self.definition_sha256,
            "version": self.version,
            "changes": list(self.changes),
            "schedules": [each.to_json() for each in self.schedules],
            "uploads": [{"uri": uri, "bytes": count} for uri, count in self.uploads],
            "drift": list(self.drift),
            "foreign": self.foreign,
            "owner": self.owner,
            "adopted": self.adopted,
            "discarded": list(self.discarded),
            "notes": list(self.notes),
            "origin": self.origin,
        }

    def text(self) -> str:
        """The plan's file."""
        return json_text.text_of(cast("Any", self.to_json()), indent=2)


def make_plan(
    objects: Objects,
    wanted: Desired,
    deployed: Deployed | None,
    *,
    discarded: Sequence[str] = (),
    adopted: bool = False,
    origin: Json | None = None,
) -> DeploymentPlan:
    """Compare the code with what is deployed.

    Args:
        adopted: it may be taken over from another project.

    Raises:
        UserError: the storage cannot be asked, its folder is another owner's, or `discarded` holds something else than
            `all`.
    """
    if wrong := [place for place in discarded if place != ALL]:
        raise UserError(f"--discard {wrong[0]!r:.60}: there is no such place on Kubeflow. Allowed: {ALL}.")
    recorded = wanted.owner.recorded(objects, wanted.root)
    owner = None if deployed is None else deployed.other(wanted.root, wanted.project)
    owner = owner or wanted.owner.other(recorded)
    uploads = tuple((asset.uri, size_of(asset)) for asset in objects.missing(wanted.assets))
    newest = None if deployed is None else deployed.newest
    # Without a version of ours on top, ours goes there again: the newest is what the platform runs.
    is_newest = newest is not None and newest.sha256 == wanted.sha256 and owner is None
    number = 1 if deployed is None else deployed.number + 1
    version = None if is_newest else f"{number}-{wanted.sha256[:12]}"
    schedules = tuple(schedule_changes(wanted, deployed, replaced=version is not None))
    changes = () if newest is None or is_newest else tuple(differences(newest.spec, wanted.spec))
    action: Action = "create" if deployed is None else "update"
    if deployed is not None and not (version or schedules or uploads):
        action = "none"
    return DeploymentPlan(
        pipeline=wanted.name,
        endpoint=wanted.settings.endpoint,
        namespace=wanted.settings.namespace,
        action=action,
        state=fingerprint(deployed),
        code=wanted.fingerprint,
        definition_sha256=wanted.sha256,
        version=version,
        changes=changes,
        schedules=schedules,
        uploads=uploads,
        drift=tuple(_drift(deployed)) if deployed is not None else (),
        foreign=deployed is not None and not deployed.is_ours,
        owner=owner,
        adopted=adopted,
        discarded=tuple(discarded),
        notes=(*wanted.notes, *_strangers(deployed)),
        origin=origin,
    )


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


def schedule_changes(wanted: Desired, deployed: Deployed | None, *, replaced: bool) -> Iterator[ScheduleChange]:
    """What happens to recurring runs."""
    kept, gone = kept_and_gone(wanted, deployed, replaced=replaced)
    old: dict[str, RecurringRun] = {}
    for each in gone:
        if each.trigger in kept or each.trigger in old:
            yield ScheduleChange("delete", str(each.trigger), ("a second recurring run for it",))
        else:
            old[str(each.trigger)] = each
    for recurring in wanted.recurring:
        before = old.pop(recurring.trigger, None)
        if before is not None:
            yield ScheduleChange("update", recurring.trigger, tuple(_details(before, recurring)))
        elif recurring.trigger not in kept:
            yield ScheduleChange("create", recurring.trigger, (recurring.when,))
    for name in sorted(old):
        yield ScheduleChange("delete", name)


def _details(before: RecurringRun, after: Recurring) -> Iterator[str]:
    if when(before.said | {"mode": before.body["mode"]}) != after.when:
        yield f"{when(before.said | {'mode': before.body['mode']})} -> {after.when}"
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


def lines(plan: DeploymentPlan, wanted: Desired) -> list[str]:
    """A plan for people: a line a change."""
    return list(_lines(plan, wanted))


def _lines(plan: DeploymentPlan, wanted: Desired) -> Iterator[str]:
    where = f"namespace {plan.namespace} at {plan.endpoint}"
    if plan.is_empty:
        yield f"Nothing to do: pipeline {plan.pipeline!r} in {where} is what the code says."
    elif plan.action == "create":
        counts = f"{wanted.num_steps} steps, {wanted.num_parameters} parameters"
        yield f"+ pipeline {plan.pipeline!r} in {where}: {counts}"
    else:
        yield f"~ pipeline {plan.pipeline!r} in {where}"
    for change in plan.changes:
        yield f"    {change}"
    if plan.version is not None:
        yield f"+ version {plan.version}"
    for schedule in plan.schedules:
        yield f"{SIGNS[schedule.action]} schedule {schedule.name!r}"
        for detail in schedule.details:
            yield f"    {detail}"
    if plan.uploads:
        total = sum(count for _, count in plan.uploads)
        yield f"+ {len(plan.uploads)} objects in {wanted.root}/, {in_bytes(total)}"
    if plan.owner is not None:
        yield f"It belongs to {plan.owner}"
    if plan.drift:
        yield "Changed by others since the last apply, and undone by applying:"
        for line in plan.drift:
            yield f"    {line}"
    for note in plan.notes:
        yield f"note: {note}"


def read_plan(content: bytes, source: str) -> DeploymentPlan:
    """The plan in a file.

    Raises:
        UserError: it is none.
    """
    said = json_text.parse(content, source)
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise UserError(f"{source}: this is no plan of format {FORMAT}. {MAKE_ONE}")
    try:
        return _from_json(cast("Json", said))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{source}: this is no plan: {error!r:.160}. {MAKE_ONE}") from None


def _from_json(said: Json) -> DeploymentPlan:
    texts = ("pipeline", "endpoint", "namespace", "action", "state", "code", "definition_sha256")
    for name in texts:
        if not isinstance(said[name], str):
            raise ValueError(f"{name} is {said[name]!r:.60}, and should be text")
    origin = said["origin"]
    if origin is not None:
        if not isinstance(origin["target"], str) or not all(isinstance(each, str) for each in origin["set"]):
            raise ValueError("origin names no pipeline")
        for name in ("config", "name", "definition"):
            if not isinstance(origin[name], str | None):
                raise ValueError(f"origin.{name} should be text or null")
    return DeploymentPlan(
        **{name: said[name] for name in texts},
        version=said["version"],
        changes=tuple(map(str, said["changes"])),
        schedules=tuple(
            ScheduleChange(each["action"], each["name"], tuple(each["details"])) for each in said["schedules"]
        ),
        uploads=tuple((each["uri"], each["bytes"]) for each in said["uploads"]),
        drift=tuple(map(str, said["drift"])),
        foreign=bool(said["foreign"]),
        owner=None if said["owner"] is None else str(said["owner"]),
        adopted=bool(said["adopted"]),
        discarded=tuple(map(str, said["discarded"])),
        notes=tuple(map(str, said["notes"])),
        origin=origin,
    )
