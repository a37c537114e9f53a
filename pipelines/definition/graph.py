"""The DAG inside a definition: who waits for whom, and whether it can run at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from drivetrain.pipelines.definition.conditions import check_condition
from drivetrain.pipelines.definition.document import Definition, StepNode
from drivetrain.pipelines.definition.expressions import EXECUTION_FIELDS, FUNCTIONS, Get
from drivetrain.pipelines.definition.json_text import Json
from drivetrain.pipelines.errors import UserError, did_you_mean

TRIGGERS = ("Failed", "Stopped", "Any")


def dependencies(definition: Definition) -> dict[str, set[str]]:
    """Step -> the steps that must have ended before it starts: by reference, DependsOn, or as its condition.

    Raises:
        UserError: for a reference that cannot be read.
    """
    return {
        step.name: {get.step for get in step.references if get.step is not None}
        | {dependency.step for dependency in step.depends_on}
        | {condition for condition, _ in step.branch}
        for step in definition.walk()
    }


def check(definition: Definition) -> None:
    """Refuse what cannot run, before anything runs.

    Raises:
        UserError: duplicate names; references to steps, parameters, property files or functions that do not exist;
            an unknown trigger or condition; unreadable cache, retry or output settings; a cycle. It holds the first
            problem and the number of the others.
    """
    found = list(_problems(definition))
    if found:
        raise UserError(found[0] + (f" ({len(found) - 1} more problems)" if len(found) > 1 else ""))
    from drivetrain.pipelines.spec.graph import find_cycle  # brings the spec's models along, which reading never needs

    if cycle := find_cycle(dependencies(definition)):
        raise UserError(
            f"{definition.source}: the steps wait for each other: {' -> '.join(cycle)}. Remove one reference or "
            "DependsOn."
        )


def _problems(definition: Definition) -> Iterator[str]:
    steps = definition.walk()
    for name, count in Counter(step.name for step in steps).items():
        if count > 1:
            yield f"{definition.source}: {count} steps are named {name!r}. Names are unique, in branches too."
    for name, count in Counter(parameter.name for parameter in definition.parameters).items():
        if count > 1:
            yield f"{definition.source}: {count} parameters are named {name!r}."
    parameters = {parameter.name for parameter in definition.parameters}
    for step in steps:
        for dependency in step.depends_on:
            if dependency.step not in definition.by_name:
                yield (
                    f"{step.place} depends on step {dependency.step!r}, which does not exist. "
                    f"{did_you_mean(dependency.step, definition.by_name)}"
                )
            if dependency.trigger is not None and dependency.trigger not in TRIGGERS:
                yield f"{step.place}: trigger {dependency.trigger!r}. {did_you_mean(dependency.trigger, TRIGGERS)}"
        try:
            got = step.references
            _read_settings(step)
        except UserError as error:
            yield str(error)
            continue
        for get in got:
            if problem := _unknown(get, definition, parameters):
                yield f"{step.place}: Get {get.text!r}: {problem}"
        for function in step.functions:
            if function not in FUNCTIONS:
                yield f"{step.place}: function {function!r} is not known. {did_you_mean(function, FUNCTIONS)}"


def _read_settings(step: StepNode) -> None:
    """Everything that is only read when it is used."""
    _ = (step.cache, step.retry_policies, step.property_files, step.output_parameters)
    if step.type == "Condition":
        conditions: Json = step.arguments.get("Conditions")
        if not isinstance(conditions, list) or not conditions:
            raise UserError(f"{step.place}: Conditions is {conditions!r:.80}. Allowed: a filled list.")
        try:
            check_condition(conditions)
        except UserError as error:
            raise UserError(f"{step.place}: {error}") from None


def _unknown(get: Get, definition: Definition, parameters: set[str]) -> str | None:
    """Why a reference leads nowhere, as far as that is known before the run."""
    if get.parameter is not None:
        if get.parameter not in parameters:
            return f"there is no parameter {get.parameter!r}. {did_you_mean(get.parameter, parameters)}"
    elif get.root == "Execution":
        field = str(get.path[0])
        if field not in EXECUTION_FIELDS:
            return f"an execution has no {field!r}. {did_you_mean(field, EXECUTION_FIELDS)}"
    elif get.step is not None:
        step = definition.by_name.get(get.step)
        if step is None:
            return f"there is no step {get.step!r}. {did_you_mean(get.step, definition.by_name)}"
        if get.property_file is not None and get.property_file not in step.property_files:
            return (
                f"step {get.step!r} has no property file {get.property_file!r}. "
                f"{did_you_mean(get.property_file, step.property_files)}"
            )
    return None
