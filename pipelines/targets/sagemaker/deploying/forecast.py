"""Which steps the next execution would take from the cache, as far as the two definitions tell.

The service compares a step's key attributes with those of an earlier success; the same attributes are compared here,
before their references are resolved. A step whose input comes from one that runs again gets another URI, and runs too.
https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-caching.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivetrain.pipelines.definition.change_words import describe_all
from drivetrain.pipelines.definition.difference import Change
from drivetrain.pipelines.definition.document import Definition, StepNode, from_json
from drivetrain.pipelines.definition.expressions import expressions
from drivetrain.pipelines.targets.local.cache import KEY_ATTRIBUTES

MAX_REASONS = 3
OF_THE_EXECUTION = ("PipelineExecutionId", "PipelineExecutionArn", "CurrentDateTime", "StartDateTime")


@dataclass(frozen=True)
class Forecast:
    """Whether a step can be taken from the cache, and if it runs why; `why` is empty for what is never cached."""

    step: str
    cached: bool
    why: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"step": self.step, "cached": self.cached, "why": list(self.why)}

    @staticmethod
    def from_json(said: Mapping[str, Any]) -> Forecast:
        return Forecast(str(said["step"]), bool(said["cached"]), tuple(map(str, said["why"])))


def forecast(
    deployed: Mapping[str, Any] | None, code: Mapping[str, Any], changes: tuple[Change, ...]
) -> tuple[Forecast, ...]:
    """Of every step that has a cache, in the order in which the steps were written.

    Args:
        changes: `differences(deployed, code)`.
    """
    new = from_json(dict(code), "the compiled definition")
    old = None if deployed is None else from_json(dict(deployed), "the deployed definition")
    by_step: dict[str, list[Change]] = {}
    for change in changes:
        if change.step is not None:
            by_step.setdefault(change.step, []).append(change)
    parameters = {str(change.place[1]): change for change in changes if change.place[0] == "parameters"}
    found: dict[str, Forecast] = {}
    for step in _in_order(new):
        if not step.cache.enabled:
            continue
        why = _why(step, old, by_step.get(step.name, []), parameters, found)
        found[step.name] = Forecast(step.name, not why, why)
    return tuple(found[step.name] for step in new.walk() if step.name in found)


def _in_order(definition: Definition) -> list[StepNode]:
    """Every step after those whose results it reads; those of a cycle, which nothing runs, as they stand."""
    waiting, done, ordered = list(definition.walk()), set[str](), list[StepNode]()
    while waiting:
        ready = [step for step in waiting if all(name in done for name in _sources(step, definition))] or waiting
        ordered += ready
        done |= {step.name for step in ready}
        waiting = [step for step in waiting if step.name not in done]
    return ordered


def _sources(step: StepNode, definition: Definition) -> set[str]:
    return {get.step for get in step.references if get.step is not None and get.step in definition.by_name}


def _why(
    step: StepNode,
    old: Definition | None,
    changes: list[Change],
    parameters: Mapping[str, Change],
    found: Mapping[str, Forecast],
) -> tuple[str, ...]:
    before = None if old is None else old.by_name.get(step.name)
    if before is None or before.type != step.type:
        return ("it is new",)
    keys = KEY_ATTRIBUTES.get(step.type)
    attributes = {key: step.arguments[key] for key in keys or step.arguments if key in step.arguments}
    why: list[str] = []
    relevant = [change for change in changes if _counts(change, keys)]
    why += [line.removeprefix(f"{step.name}: ") for line in describe_all(relevant)]
    gets, _ = expressions(attributes)
    for get in gets:
        source = get.step
        if source is not None and (upstream := found.get(source)) is not None and not upstream.cached:
            why.append(f"{source} runs again")
        elif get.root == "Execution" and get.path[0] in OF_THE_EXECUTION:
            why.append("its arguments name the execution")
        elif get.parameter in parameters:
            why += describe_all([parameters[str(get.parameter)]])
    unique = list(dict.fromkeys(why))
    more = len(unique) - MAX_REASONS
    return tuple([*unique[:MAX_REASONS], f"{more} more"] if more > 0 else unique)


def _counts(change: Change, keys: tuple[str, ...] | None) -> bool:
    """Whether a change is of what the cache goes by: of the key attributes, or (None) of any argument."""
    root, _, *rest = change.place
    if root != "steps" or not rest:
        return root == "steps"
    return rest[0] == "Arguments" and (len(rest) == 1 or keys is None or rest[1] in keys)
