"""The DAG inside a definition: who waits for whom, whether it can run at all, and which selections of its steps can.

Selective execution is documented (https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-selective-ex.html,
SelectiveExecutionConfig): 1 to 50 steps; every step on a path between two of them is among them; what they need of
other steps is taken from an earlier execution.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import Json
from drivetrain.catalog.quotas import MAX_SELECTED_STEPS
from drivetrain.targets.sagemaker.document import descend, name_of_entry
from drivetrain.targets.sagemaker.document.document import FOR_EACH, Definition, StepNode
from drivetrain.targets.sagemaker.document.expressions import EXECUTION_FIELDS, JOB_FIELDS, Get, is_expression
from drivetrain.targets.sagemaker.document.step_types import job_of

# Completed is what a plain name means: the SDK writes it so.
TRIGGERS = ("Completed", "Failed", "Stopped", "Any")
_MOST_COUNTED = 20
# A step's name becomes the name of a folder where it runs on this machine.
_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,255}")


def dependencies(definition: Definition) -> dict[str, set[str]]:
    """Step -> the steps that must have ended before it starts: by reference, DependsOn, or as its condition.

    Raises:
        UserError: for a reference that cannot be read.
    """
    return {
        step.name: {get.step for get in step.references if get.step is not None}
        | {dependency.step for dependency in step.depends_on}
        | {condition for condition, _ in step.branch}
        | _needs_of_the_body(step)
        for step in definition.walk()
    }


def reached(start: Iterable[str], after: Callable[[str], Iterable[str]]) -> set[str]:
    """The names that `start` leads to, in any number of steps; without `start` itself unless it is reached, too."""
    found: set[str] = set()
    left = list(start)
    while left:
        new = set(after(left.pop())) - found
        found |= new
        left += new
    return found


def _needs_of_the_body(step: StepNode) -> set[str]:
    if step.type != FOR_EACH:
        return set()
    from drivetrain.targets.sagemaker.document.for_each import outer_needs

    return outer_needs(step)


def check(definition: Definition) -> None:
    """Refuse what cannot run, before anything runs.

    Raises:
        UserError: duplicate names; references to steps, parameters or property files that do not exist; an unknown
            trigger or condition; arguments that are one expression; unreadable cache, retry or output settings; a
            cycle. It holds the first problem and the number of the others.
    """
    if found := faults(definition):
        more = "at least " if len(found) == _MOST_COUNTED else ""
        raise UserError(found[0] + (f" ({more}{len(found) - 1} more problems)" if len(found) > 1 else ""))


def faults(definition: Definition, most: int = _MOST_COUNTED) -> list[str]:
    """Why a definition cannot run, at most so many reasons; [] when it can. What `check` refuses."""
    if found := list(islice(_problems(definition), most)):
        return found
    from drivetrain.spec.pipeline import find_cycle  # brings the spec's models along, which reading never needs

    if cycle := find_cycle(dependencies(definition)):
        return [
            f"{definition.source}: the steps wait for each other: {' -> '.join(cycle)}. Remove one reference or "
            "DependsOn."
        ]
    loops = [step for step in definition.walk() if step.type == FOR_EACH]
    if not loops:
        return []
    from drivetrain.targets.sagemaker.document.for_each import inner_needs

    cycles = ((step, find_cycle(inner_needs(step.body))) for step in loops)
    return [
        f"{step.place}: the steps of the body wait for each other: {' -> '.join(cycle)}."
        for step, cycle in cycles
        if cycle
    ][:most]


def _problems(definition: Definition) -> Iterator[str]:
    steps, readable = definition.walk(), True
    yield from repeated_names(definition)
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
        yield from _own_problems(step)
        try:
            unknown = [(get, _unknown(get, definition, parameters, step)) for get in step.references]
        except UserError as error:
            readable = False
            yield str(error)
            continue
        for get, problem in unknown:
            if problem:
                yield f"{step.place}: Get {get.text!r}: {problem}"
        if step.type == "Condition":
            yield from _mistyped(step, definition)
    if not readable:  # what follows reads all references
        return
    yield from _misplaced(definition)
    if any(step.type == FOR_EACH for step in steps):
        from drivetrain.targets.sagemaker.document import for_each

        yield from for_each.problems(definition)
        for step in steps:
            for body_step in step.body:
                yield from _own_problems(body_step)


def _misplaced(definition: Definition) -> Iterator[str]:
    """References that only make sense in a ForEach."""
    for step in definition.walk():
        if step.type == FOR_EACH:
            continue
        for get in step.references:
            if get.root in (FOR_EACH, "IterationOutput"):
                yield f"{step.place}: Get {get.text!r} has a value in a ForEach step only."


def repeated_names(definition: Definition) -> Iterator[str]:
    """Names that several steps have."""
    for name, count in Counter(step.name for step in definition.walk()).items():
        if count > 1:
            yield f"{definition.source}: {count} steps are named {name!r}. Names are unique, in branches too."


def name_problem(step: StepNode) -> str | None:
    """Why a step's name cannot be the name of a folder; None where it can."""
    if _FOLDER_NAME.fullmatch(step.name):
        return None
    return (
        f"step {step.name!r}: the name is not allowed. Allowed: letters, digits, '-' and '_', a letter or digit first."
    )


def _own_problems(step: StepNode) -> Iterator[str]:
    """Find the problems of a step that do not depend on where it stands."""
    for dependency in step.depends_on:
        if dependency.trigger is not None and dependency.trigger not in TRIGGERS:
            yield f"{step.place}: trigger {dependency.trigger!r}. {did_you_mean(dependency.trigger, TRIGGERS)}"
    if is_expression(step.arguments):
        yield (
            f"{step.place}: Arguments is {json.dumps(step.arguments):.80}. Allowed: an object with the fields of the "
            "step; each may be an expression."
        )
        return
    try:
        _read_settings(step)
    except UserError as error:
        yield str(error)
        return
    yield from _lost_files(step)


def _read_settings(step: StepNode) -> None:
    """Everything that is only read when it is used."""
    _ = (step.cache, step.retry_policies, step.property_files, step.output_parameters)
    if step.type == "Condition":
        from drivetrain.targets.sagemaker.document.conditions import check_condition

        conditions: Json = step.arguments.get("Conditions")
        if not isinstance(conditions, list) or not conditions:
            raise UserError(f"{step.place}: Conditions is {conditions!r:.80}. Allowed: a filled list.")
        try:
            check_condition(conditions)
        except UserError as error:
            raise UserError(f"{step.place}: {error}") from None


def _mistyped(step: StepNode, definition: Definition) -> Iterator[str]:
    """Values of different types that a condition compares; nothing of one that cannot be read."""
    from drivetrain.targets.sagemaker.document.conditions import type_problems

    conditions: Json = step.arguments.get("Conditions")
    with suppress(UserError):
        yield from (f"{step.place}: {problem}" for problem in type_problems(conditions, definition))


def _lost_files(step: StepNode) -> Iterator[str]:
    """Property files in outputs that the step does not declare, or outside of them."""
    outputs = _entry_names(step, "ProcessingOutputConfig", "Outputs")
    for name, file in step.property_files.items():
        if outputs is not None and file.output_name not in outputs:
            yield (
                f"{step.place}: property file {name!r} lies in output {file.output_name!r}, which the step does not "
                f"have. {did_you_mean(file.output_name, outputs)}"
            )
        if file.file_path.startswith("/") or ".." in file.file_path.split("/"):
            yield f"{step.place}: property file {name!r}: FilePath {file.file_path!r}. Allowed: a path in the output."


def _entry_names(step: StepNode, *path: str) -> list[str] | None:
    """The names of a list's entries in a processing job's arguments; None where they cannot be told."""
    if step.type != "Processing":
        return None
    try:
        entries = descend(step.arguments, path)
    except LookupError:
        return []
    names = [name_of_entry(entry) for entry in entries] if isinstance(entries, list) else [None]
    return None if None in names else [name for name in names if name is not None]


def _unknown(get: Get, definition: Definition, parameters: set[str], reader: StepNode) -> str | None:
    """Why a reference of a step leads nowhere, as far as that is known before the run."""
    if get.parameter is not None:
        if get.parameter not in parameters:
            return f"there is no parameter {get.parameter!r}. {did_you_mean(get.parameter, parameters)}"
    elif get.root == "Execution":
        field = str(get.path[0])
        if field in JOB_FIELDS:
            jobs = [job_of(step.type) for step in (reader, *(reader.body if reader.type == FOR_EACH else ()))]
            if field not in [job.name_member for job in jobs if job]:
                return "it is the name of the job that the step itself starts, and this one starts no such job."
        elif field not in EXECUTION_FIELDS:
            return f"an execution has no {field!r}. {did_you_mean(field, (*EXECUTION_FIELDS, *JOB_FIELDS))}"
    elif get.step is not None:
        step = definition.by_name.get(get.step)
        if step is None:
            return f"there is no step {get.step!r}. {did_you_mean(get.step, definition.by_name)}"
        if not get.path:
            return "it names a step and no value of it. Allowed: Steps.<step>.<path>."
        if get.property_file is not None and get.property_file not in step.property_files:
            return (
                f"step {get.step!r} has no property file {get.property_file!r}. "
                f"{did_you_mean(get.property_file, step.property_files)}"
            )
        if get.path[:2] == ("ProcessingOutputConfig", "Outputs") and isinstance(output := (*get.path, 0)[2], str):
            outputs = _entry_names(step, "ProcessingOutputConfig", "Outputs")
            if outputs is not None and output not in outputs:
                return f"step {get.step!r} has no output {output!r}. {did_you_mean(output, outputs)}"
    return None


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
