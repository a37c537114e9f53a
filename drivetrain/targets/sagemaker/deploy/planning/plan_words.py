"""A plan as people read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drivetrain.base.formatting import size as in_bytes
from drivetrain.targets.sagemaker.deploy.planning.account_resource_words import described
from drivetrain.targets.sagemaker.deploy.planning.forecast import Forecast
from drivetrain.targets.sagemaker.deploy.planning.plan import DeploymentPlan, TriggerChange
from drivetrain.targets.sagemaker.document.difference.change_words import describe_all, one_line
from drivetrain.targets.sagemaker.document.difference.place import ROOTS

MAX_PERMISSIONS = 6
SIGNS = {"create": "+", "update": "~", "delete": "-"}


def lines(plan: DeploymentPlan, *, num_steps: int = 0, num_parameters: int = 0) -> list[str]:
    """A line a change, with what follows from them; `num_steps` and `num_parameters` are those of a new pipeline."""
    return list(_lines(plan, num_steps, num_parameters))


def _lines(plan: DeploymentPlan, num_steps: int, num_parameters: int) -> Iterator[str]:
    where = f"account {plan.account}, {plan.region}"
    if plan.is_empty:
        yield f"Nothing to do: pipeline {plan.pipeline!r} in {where} is what the code says."
    elif plan.action == "create":
        yield f"+ pipeline {plan.pipeline!r} in {where}: {num_steps} steps, {num_parameters} parameters"
    else:
        yield f"~ pipeline {plan.pipeline!r} in {where}"
    for line in describe_all(plan.changes):
        yield f"    {line}"
    for item in plan.properties:
        yield one_line(f"    {item.name}: {_value(item.old)} -> {_value(item.new)}")
    if plan.record is not None and not (plan.changes or plan.properties or plan.triggers):
        yield "    the record of what was applied last is brought up to date"
    for trigger in plan.triggers:
        yield from _trigger(trigger)
    if plan.uploads:
        size = sum(upload.bytes for upload in plan.uploads)
        yield f"+ {len(plan.uploads)} objects in the bucket, {in_bytes(size)}"
    yield from _drift(plan)
    if plan.steps and not plan.is_empty:
        yield from _forecast(plan.steps)
    if plan.permissions is not None and not plan.is_empty:
        yield from _permissions(plan)
    if plan.cost is not None and not plan.is_empty:
        yield "An execution costs:"
        for line in plan.cost["lines"]:
            yield f"    {line}"
    for note in plan.notes:
        yield f"note: {note}"


def _value(value: str | int | None) -> str:
    return "none" if value is None or value == "" else str(value)


def _trigger(trigger: TriggerChange) -> Iterator[str]:
    yield f"{SIGNS[trigger.action]} {trigger.kind} {trigger.name!r}"
    for line in trigger.details:
        yield f"    {line}"


def _drift(plan: DeploymentPlan) -> Iterator[str]:
    undone = {change.place for change in plan.overwritten}
    kept = [change for change in plan.drift if change.place not in undone]
    if kept:
        yield "Edited since the last apply, and in the code already:"
        for line in describe_all(change for change in kept if change.place[0] in ROOTS):
            yield f"    {line}"
        for change in kept:
            if change.place[0] not in ROOTS:
                yield f"    {described(change)}"
    if plan.overwritten:
        if plan.owner is not None:
            yield f"Of {plan.owner}, and undone by applying:"
        elif plan.foreign:
            yield "Not made by drivetrain, and undone by applying:"
        elif plan.lost is not None:
            yield "There now, perhaps edited since the last apply, and undone by applying:"
        elif plan.action == "create":
            yield "Edited since it was made, and undone by applying:"
        else:
            yield "Edited since the last apply, and undone by applying:"
        for change in plan.overwritten:
            yield f"    {described(change)}  ({change.where})"


def _permissions(plan: DeploymentPlan) -> Iterator[str]:
    """What roles must be allowed; of a new pipeline only how much, since all is new."""
    said = plan.permissions or {}
    for role, change in said["roles"].items():
        name = role.rpartition("/")[2]
        if plan.action == "create":
            yield f"Role {name} needs {len(change['added'])} permissions (docs/infrastructure.md makes them)"
            continue
        for sign, entries in (("+", change["added"]), ("-", change["removed"])):
            for action, resource, _ in entries[:MAX_PERMISSIONS]:
                yield f"{sign} role {name}: {action} on {resource}"
            if len(entries) > MAX_PERMISSIONS:
                yield f"{sign} role {name}: {len(entries) - MAX_PERMISSIONS} more"
    for note in said["notes"]:
        yield f"note: {note}"


def _forecast(steps: Sequence[Forecast]) -> Iterator[str]:
    """What the next execution runs."""
    cached = [step.step for step in steps if step.cached]
    running = [step for step in steps if not step.cached]
    if cached:
        yield f"From the cache, where the last execution succeeded: {', '.join(cached)}"
    if running and all(step.why == ("it is new",) for step in running):
        yield f"To run: {', '.join(step.step for step in running)}"
    else:
        for step in running:
            yield f"To run: {step.step} ({', '.join(step.why)})"
