"""A plan as people read it."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.formatting import size as in_bytes
from drivetrain.deploying.plan import Plan

SIGNS = {"create": "+", "update": "~", "delete": "-"}


def lines(plan: Plan) -> list[str]:
    """A line a change."""
    return list(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    if plan.is_empty:
        yield f"Nothing to do: pipeline {plan.pipeline!r} in {plan.place} is what the code says."
    elif plan.action == "create":
        counts = f"{plan.num_steps} steps, {plan.num_parameters} parameters"
        yield f"+ pipeline {plan.pipeline!r} in {plan.place}: {counts}"
    else:
        yield f"~ pipeline {plan.pipeline!r} in {plan.place}"
    for change in plan.changes:
        if change.text:
            yield f"    {change.text}"
    if plan.version is not None:
        yield f"+ version {plan.version}"
    for trigger in plan.triggers:
        yield f"{SIGNS[trigger.action]} {trigger.kind} {trigger.name!r}"
        for line in trigger.lines:
            yield f"    {line}"
    if plan.uploads:
        total = sum(upload.bytes for upload in plan.uploads)
        yield f"+ {len(plan.uploads)} objects in {plan.storage}, {in_bytes(total)}"
    yield from plan.findings
    for note in plan.notes:
        yield f"note: {note}"
