"""The pipeline: the one language between an author and a target; and the DAG inside it: which step needs which, and
which steps stand in which branch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from drivetrain.catalog import quotas
from drivetrain.spec import Frozen, FrozenDict, FrozenMap
from drivetrain.spec.deployment import Deployment
from drivetrain.spec.resources import CachePolicy
from drivetrain.spec.steps import ConditionStep, ForEachStep, NativeStep, Step, flatten
from drivetrain.spec.triggers import Trigger
from drivetrain.spec.values import ParameterRef, Pending, Scalar, ValueType, references_in


class Parameter(Pending):
    """A value given when the pipeline is started; it can be used wherever a literal can."""

    name: str
    type: ValueType
    default: Scalar | None = None
    choices: tuple[Scalar, ...] = ()

    @classmethod
    def string(cls, name: str, default: str | None = None, choices: tuple[str, ...] = ()) -> Parameter:
        return cls(name=name, type="String", default=default, choices=choices)

    @classmethod
    def integer(cls, name: str, default: int | None = None, choices: tuple[int, ...] = ()) -> Parameter:
        return cls(name=name, type="Integer", default=default, choices=choices)

    @classmethod
    def number(cls, name: str, default: float | None = None, choices: tuple[float, ...] = ()) -> Parameter:
        return cls(name=name, type="Float", default=default, choices=choices)

    @classmethod
    def boolean(cls, name: str, default: bool | None = None) -> Parameter:
        return cls(name=name, type="Boolean", default=default)

    def ref(self) -> ParameterRef:
        """What stands for the value in steps and conditions."""
        return ParameterRef(name=self.name, type=self.type)

    def described(self) -> str:
        return self.ref().described()


class Pipeline(Frozen):
    """Steps that compose into a DAG; references between them are its edges. Plain data: authors build one that is
    checked (drivetrain.authoring)."""

    name: str
    steps: tuple[Step, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    display_name: Annotated[str, Field(max_length=quotas.MAX_DISPLAY_NAME_CHARACTERS)] | None = None
    description: Annotated[str, Field(max_length=quotas.MAX_DESCRIPTION_CHARACTERS)] | None = None
    deployment: Deployment = Deployment()
    cache: CachePolicy = CachePolicy()
    tags: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Of the pipeline itself, an argument of the create call. Jobs get those of their step, and of their
    target's block."""
    triggers: tuple[Trigger, ...] = ()
    max_parallel_steps: Annotated[int, Field(ge=1)] | None = None
    """An argument of the start call, not of the definition."""


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
