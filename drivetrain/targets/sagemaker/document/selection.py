"""Selective execution: which selections of steps the service takes.

Documented (https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-selective-ex.html, SelectiveExecutionConfig): 1 to
50 steps; every step on a path between two of them is among them; what they need of other steps is taken from an earlier
execution.
"""

from __future__ import annotations

from collections.abc import Iterable

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.catalog.quotas import MAX_SELECTED_STEPS
from drivetrain.targets.sagemaker.document.document import Definition
from drivetrain.targets.sagemaker.document.graph import dependencies, reached


def check_selection(definition: Definition, names: Iterable[str]) -> frozenset[str]:
    """The steps that are not selected and that selected ones need, through others, too.

    Raises:
        UserError: none or too many, a step that is not there, or one left out between two that are selected.
    """
    chosen = frozenset(names)
    if not 1 <= len(chosen) <= MAX_SELECTED_STEPS:
        raise UserError(f"--select names {len(chosen)} steps. Allowed: 1 to {MAX_SELECTED_STEPS}.")
    for name in sorted(chosen):
        if name not in definition.by_name:
            loop = next((step for step in definition.walk() if name in step.body_names), None)
            hint = did_you_mean(name, definition.by_name)
            raise UserError(
                f"--select {name}: there is no such step. {hint}"
                if loop is None
                else f"--select {name}: it stands in the body of {loop.name}. Select {loop.name}."
            )
    needs = dependencies(definition)
    before = reached(chosen, lambda name: needs.get(name, ()))
    users: dict[str, set[str]] = {name: set() for name in needs}
    for name, needed in needs.items():
        for other in needed & users.keys():
            users[other].add(name)
    if between := sorted((before & reached(chosen, lambda name: users.get(name, ()))) - chosen):
        raise UserError(
            f"--select: {', '.join(between)} {'lies' if len(between) == 1 else 'lie'} between steps that are selected. "
            "Select all steps on a path between two of them."
        )
    return frozenset(before - chosen)
