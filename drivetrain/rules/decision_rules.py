"""Rules about what compare decides by: a wrong condition is found before anything is trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, cast

from drivetrain.base.errors import InputError
from drivetrain.decision.policy import Policy
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import COMPARE
from drivetrain.spec.steps import JobStep

rule = RuleBook()


@rule.each(JobStep)
def conditions_can_be_decided_on(step: JobStep, graph: Graph) -> Iterator[str]:
    if step.program.target != COMPARE:
        return
    given = {each.name: step.parameters[each.name] for each in fields(Policy) if each.name in step.parameters}
    # What only the run will know decides nothing here.
    known = {name: value for name, value in given.items() if isinstance(value, str | int | float)}
    try:
        Policy(**cast("dict[str, Any]", known))
    except InputError as error:
        yield f"step {step.name!r}: {error}"
