"""Forecast which steps the next execution would take from the cache, as far as the two definitions tell.

The service compares a step's key attributes with those of an earlier success; the same attributes are compared here,
before their references are resolved. A step whose input comes from one that runs again gets another URI, and runs too;
so does one that reads what a step without a cache makes anew each time, such as the name of a model. A step in the body
of a ForEach is told once for all items.
https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-caching.html
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from drivetrain.deploying.plan import Forecast
from drivetrain.targets.sagemaker.document import descend
from drivetrain.targets.sagemaker.document.difference.change_words import describe_all
from drivetrain.targets.sagemaker.document.difference.difference import Change
from drivetrain.targets.sagemaker.document.document import Definition, StepNode, from_json
from drivetrain.targets.sagemaker.document.expressions import JOB_FIELDS, PROPERTY_FILES, Get, expressions
from drivetrain.targets.sagemaker.document.step_types import compared, counts, step_type

MAX_REASONS = 3
OF_THE_EXECUTION = ("PipelineExecutionId", "PipelineExecutionArn", "CurrentDateTime", "StartDateTime", *JOB_FIELDS)
_ITEMS = ("Arguments", "IterableItems")
_BODY = ("Arguments", "ForEachBody")


def forecast(
    deployed: Mapping[str, Any] | None, code: Mapping[str, Any], changes: tuple[Change, ...]
) -> tuple[Forecast, ...]:
    """Forecast every step that has a cache, in the order in which the steps were written.

    Args:
        changes: `differences(deployed, code)`.
    """
    new = _Steps(from_json(dict(code), "the compiled definition"))
    old = None if deployed is None else _Steps(from_json(dict(deployed), "the deployed definition"))
    by_step: dict[str, list[Change]] = {}
    for change in changes:
        if change.step is not None:
            by_step.setdefault(change.step, []).append(change)
    parameters = {str(change.place[1]): change for change in changes if change.place[0] == "parameters"}
    found: dict[str, Forecast] = {}
    again: set[str] = set()
    for step in new.in_order():
        if not step.cache.enabled:
            continue
        loop = new.loops.get(step.name)
        own = [change for change in by_step.get(loop or step.name, ()) if _counts(change, step, loop)]
        if old is None or (before := old.by_name.get(step.name)) is None or before.type != step.type:
            why = ("it is new",)
        else:
            # `train: epochs 20 -> 30`, and of a step in a body `Each: step train epochs 20 -> 30`
            lines = [line.removeprefix(f"{loop or step.name}: ") for line in describe_all(own)]
            why = _why(step, [line.removeprefix(f"step {step.name} ") for line in lines], parameters, again, new)
        found[step.name] = Forecast(step=step.name, cached=not why, why=why)
        if why:
            again |= {step.name, loop or step.name}  # who reads a ForEach reads what came of its body
    return tuple(found[name] for name in new.by_name if name in found)


class _Steps:
    """The steps of a definition, those in the body of a ForEach among them: their names are unique, too."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition

    @cached_property
    def by_name(self) -> Mapping[str, StepNode]:
        """In the order in which they were written."""
        return {step.name: step for step in self.definition.all_steps}

    @cached_property
    def loops(self) -> Mapping[str, str]:
        """Step of a body -> its ForEach."""
        return {step.name: outer.name for outer in self.definition.walk() for step in outer.body}

    def in_order(self) -> list[StepNode]:
        """Every step after the steps that it reads from; steps of a cycle, which never run, in their given order."""
        waiting, done, ordered = list(self.by_name.values()), set[str](), list[StepNode]()
        while waiting:
            ready = [step for step in waiting if self._sources(step) <= done] or waiting
            ordered += ready
            done |= {step.name for step in ready}
            waiting = [step for step in waiting if step.name not in done]
        return ordered

    def _sources(self, step: StepNode) -> set[str]:
        named = {get.step for get in step.references if get.step is not None}
        read = {body.name for name in named if name in self.by_name for body in self.by_name[name].body}
        return (named | read) & self.by_name.keys()


def _why(
    step: StepNode, changed: list[str], parameters: Mapping[str, Change], again: set[str], steps: _Steps
) -> tuple[str, ...]:
    why = changed
    gets, _ = expressions(compared(step.type, step.raw))
    for get in gets:
        if get.step is not None and get.step in again:
            why.append(f"{get.step} runs again")
        elif _is_made_anew(get, steps, again):
            why.append(f"{get.step} runs each time")
        elif _is_of_the_execution(get):
            why.append("its arguments name the execution")
        elif get.parameter in parameters:
            why += describe_all([parameters[str(get.parameter)]])
    unique = list(dict.fromkeys(why))
    more = len(unique) - MAX_REASONS
    return tuple([*unique[:MAX_REASONS], f"{more} more"] if more > 0 else unique)


def _is_made_anew(get: Get, steps: _Steps, again: set[str], seen: frozenset[str] = frozenset()) -> bool:
    """Return True if each execution gives another value to a reference to a job or a model that is never cached, as
    far as the definition tells: what its arguments do not say (names, ARNs, where a model lies), or say by the
    execution."""
    source = steps.by_name.get(get.step or "")
    if source is None or not step_type(source.type).named_anew or source.cache.enabled or source.name in seen:
        return False
    if get.path[:1] in ((PROPERTY_FILES,), ("OutputParameters",)):  # may well come out as before
        return False
    try:
        gets, _ = expressions(descend(source.arguments, get.path))
    except LookupError:
        return True
    seen |= {source.name}
    return any(
        inner.step in again or _is_of_the_execution(inner) or _is_made_anew(inner, steps, again, seen) for inner in gets
    )


def _is_of_the_execution(get: Get) -> bool:
    return get.root == "Execution" and get.path[0] in OF_THE_EXECUTION


def _counts(change: Change, step: StepNode, loop: str | None) -> bool:
    """Return True if a change is of what the cache compares: of the key attributes, or of any argument if those are
    unknown; for a step in a body also of the items, where it reads them."""
    root, _, *rest = change.place
    if root != "steps":
        return False
    if loop is not None:
        if tuple(rest[:2]) == _ITEMS:
            return any(get.root == "ForEach" for get in step.references)
        if tuple(rest[:3]) != (*_BODY, step.name):
            return not rest
        rest = rest[3:]
    return counts(step.type, rest)
