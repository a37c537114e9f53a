"""Rules about what compare decides by: a wrong condition is found before anything is trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from drivetrain.base.errors import InputError
from drivetrain.decision.policy import policy
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import COMPARE
from drivetrain.spec.steps import JobStep

rule = RuleBook()

CONDITIONS = (
    *("metric", "rule", "margin", "confidence", "horizon", "floors", "budgets", "budget_rule", "margin_from"),
    *("nights", "lines"),
)


@rule.each(JobStep)
def conditions_can_be_decided_on(step: JobStep, graph: Graph) -> Iterator[str]:
    if step.program.target != COMPARE:
        return
    given = {name: step.parameters[name] for name in CONDITIONS if name in step.parameters}
    # What only the run will know decides nothing here.
    known = {name: value for name, value in given.items() if isinstance(value, str | int | float)}
    try:
        policy(**cast("dict[str, Any]", known))
    except InputError as error:
        yield f"step {step.name!r}: {error}"
