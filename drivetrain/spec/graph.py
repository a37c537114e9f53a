"""The DAG inside a spec: which step needs which, and which steps stand in which branch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from drivetrain.spec.pipeline import Pipeline
from drivetrain.spec.steps import ConditionStep, ForEachStep, NativeStep, Step, flatten
from drivetrain.spec.values import references_in

_GET_STEP = re.compile(r"^Steps\.([^.\[]+)")


class Graph:
    """A read-only view of a pipeline's steps and edges, computed once."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.steps: list[Step] = flatten(pipeline.steps)

    @cached_property
    def by_name(self) -> dict[str, Step]:
        return {step.name: step for step in self.steps}

    @cached_property
    def references(self) -> dict[str, list[Any]]:
        """Step name -> the references in its own fields (not in its branches)."""
        return {step.name: references_in(own_fields(step)) for step in self.steps}

    @cached_property
    def needs(self) -> dict[str, set[str]]:
        """Step name -> names of the steps it waits for, by reference or by depends_on."""
        return {
            step.name: {ref.step for ref in self.references[step.name] if hasattr(ref, "step")}
            | {dependency.step for dependency in step.depends_on}
            | (set(steps_got(step.fields)) if isinstance(step, NativeStep) else set())
            | (self._body_needs(step) if isinstance(step, ForEachStep) else set())
            for step in self.steps
        }

    def _body_needs(self, loop: ForEachStep) -> set[str]:
        """What the steps of a body need of steps outside of it."""
        needed = {dependency.step for step in loop.body for dependency in step.depends_on}
        for step in loop.body:
            needed |= {ref.step for ref in self.references[step.name] if hasattr(ref, "step")}
        return needed - {step.name for step in loop.body}

    @cached_property
    def branch(self) -> dict[str, tuple[str, ...]]:
        """Step name -> the branches and bodies it stands in, from the outside in, as `condition:then` or
        `for_each:body`."""
        found: dict[str, tuple[str, ...]] = {}

        def visit(steps: Iterable[Step], path: tuple[str, ...]) -> None:
            for step in steps:
                found[step.name] = path
                if isinstance(step, ConditionStep):
                    visit(step.then, (*path, f"{step.name}:then"))
                    visit(step.otherwise, (*path, f"{step.name}:otherwise"))
                elif isinstance(step, ForEachStep):
                    visit(step.body, (*path, f"{step.name}:body"))

        visit(self.pipeline.steps, ())
        return found

    @cached_property
    def loops(self) -> dict[str, ForEachStep]:
        """Step of a body -> its for_each."""
        return {inner.name: step for step in self.steps if isinstance(step, ForEachStep) for inner in step.body}

    def waits_for(self, name: str) -> set[str]:
        """What must end before a step starts: its own needs, and the conditions it stands under."""
        return self.needs[name] | {entry.rpartition(":")[0] for entry in self.branch[name]}


def own_fields(step: Step) -> dict[str, Any]:
    """A step's fields without the steps nested in it, and what is said of them."""
    nested = ("then", "otherwise", "body", "selector")
    return {name: value for name, value in step.__dict__.items() if name not in nested}


def steps_got(node: Any) -> list[str]:
    """Names of the steps that raw JSON refers to by `{"Get": "Steps.X..."}`."""
    if isinstance(node, Mapping):
        got = node.get("Get")  # type: ignore[reportUnknownMemberType]
        if isinstance(got, str) and (found := _GET_STEP.match(got)):
            return [found.group(1)]
        return [name for item in node.values() for name in steps_got(item)]  # type: ignore[reportUnknownVariableType]
    if isinstance(node, list | tuple):
        return [name for item in node for name in steps_got(item)]  # type: ignore[reportUnknownVariableType]
    return []


def find_cycle(needs: Mapping[str, Iterable[str]]) -> list[str] | None:
    """The names along one cycle (first = last), or None. Iterative: a DAG may have thousands of steps."""
    done: set[str] = set()
    for start in needs:
        path: list[str] = []
        on_path: set[str] = set()
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                path.pop()
                on_path.discard(name)
                done.add(name)
                continue
            if name in on_path:
                return [*path[path.index(name) :], name]
            if name in done or name not in needs:
                continue
            path.append(name)
            on_path.add(name)
            stack.append((name, True))
            stack.extend((needed, False) for needed in sorted(needs[name], reverse=True))
    return None
