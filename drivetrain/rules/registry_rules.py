"""Rules about models that a step compares or registers: what its job would refuse after the training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, cast

from drivetrain.base.errors import InputError
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import CHECK_DATA, CHECK_SERVED, COMPARE, REGISTER_MODEL
from drivetrain.spec.steps import JobStep

rule = RuleBook()
PROGRAMS = frozenset((CHECK_DATA, CHECK_SERVED, COMPARE, REGISTER_MODEL))


@rule.each(JobStep)
def conditions_can_be_decided_on(step: JobStep, graph: Graph) -> Iterator[str]:
    if step.program.target != COMPARE:
        return
    from drivetrain.decision.policy import Policy

    given = {each.name: step.parameters[each.name] for each in fields(Policy) if each.name in step.parameters}
    # What only the run will know decides nothing here.
    known = {name: value for name, value in given.items() if isinstance(value, str | int | float)}
    try:
        Policy(**cast("dict[str, Any]", known))
    except InputError as error:
        yield f"step {step.name!r}: {error}"


@rule.each(JobStep)
def registered_models_have_an_artifact(step: JobStep, graph: Graph) -> Iterator[str]:
    if step.program.target == REGISTER_MODEL and step.parameters.get("artifact", "") == "":
        yield (
            f"step {step.name!r} registers a model without artifact=, the URI where it lies: its folder goes with "
            "the job. Give the output that is given as model: artifact=trained['model']."
        )


@rule.each(JobStep)
def registries_are_of_a_known_kind(step: JobStep, graph: Graph) -> Iterator[str]:
    from drivetrain.registry.registry import checked_kind

    registry = step.parameters.get("registry")
    if isinstance(registry, str) and registry != "auto" and step.program.target in PROGRAMS:
        try:
            checked_kind(registry)
        except InputError as error:
            yield f"step {step.name!r}: {error}"
