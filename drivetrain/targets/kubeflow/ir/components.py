"""The components of a pipeline: what they take and give, who uses them, and what nobody uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from drivetrain.base.errors import did_you_mean
from drivetrain.spec.pipeline import find_cycle
from drivetrain.targets.kubeflow.ir.problems import Json, Problem, at, entry, quoted

Flow = Literal["parameters", "artifacts"]
FLOWS: tuple[Flow, ...] = ("parameters", "artifacts")
# Before ParameterType the IR had these, which kfp's loader still reads.
_OLDER = {"INT": "NUMBER_INTEGER", "DOUBLE": "NUMBER_DOUBLE", "STRING": "STRING"}
# What breaks a placeholder or a condition that names it.
_NO_NAME = frozenset("'\"\\{}[]\r\n\t")


@dataclass(frozen=True)
class Component:
    """A component; the root is one without a name."""

    name: str
    place: str
    spec: Json

    @property
    def tasks(self) -> Mapping[str, Json]:
        """The tasks of its DAG; empty if it is no DAG."""
        return self.spec.get("dag", {}).get("tasks", {})

    def inputs(self, flow: Flow) -> Mapping[str, Json]:
        """The definitions of its inputs, by name."""
        return self.spec.get("inputDefinitions", {}).get(flow, {})

    def outputs(self, flow: Flow) -> Mapping[str, Json]:
        """The definitions of its outputs, by name."""
        return self.spec.get("outputDefinitions", {}).get(flow, {})


@dataclass(frozen=True)
class Use:
    """A task that runs a component, and the DAG in which it stands."""

    dag: Component
    task: str
    spec: Json

    @property
    def place(self) -> str:
        return entry(at(self.dag.place, "dag", "tasks"), self.task)

    def inputs(self, flow: Flow) -> Mapping[str, Json]:
        """The task's inputs, by name."""
        return self.spec.get("inputs", {}).get(flow, {})

    @property
    def iterator(self) -> Json:
        """The items over which it runs again; empty if it runs once."""
        return self.spec.get("parameterIterator") or self.spec.get("artifactIterator") or {}


class Components:
    """All components of a spec whose fields have the right types."""

    def __init__(self, spec: Json, platform: Json) -> None:
        self.spec, self.platform = spec, platform
        self.root = Component("", "root", spec.get("root", {}))
        found = spec.get("components", {})
        self.by_name = {name: Component(name, entry("components", name), found[name]) for name in found}
        self.executors: Mapping[str, Json] = spec.get("deploymentSpec", {}).get("executors", {})

    @cached_property
    def all(self) -> list[Component]:
        """The root first."""
        return [self.root, *self.by_name.values()]

    def of(self, task: Json) -> Component | None:
        """The component that a task runs, where there is one."""
        return self.by_name.get(task.get("componentRef", {}).get("name", ""))

    @cached_property
    def uses(self) -> Mapping[str, list[Use]]:
        """Component -> the tasks that run it."""
        found: dict[str, list[Use]] = {name: [] for name in self.by_name}
        for dag in self.all:
            for name, task in dag.tasks.items():
                component = self.of(task)
                if component is not None:
                    found[component.name].append(Use(dag, name, task))
        return found

    @cached_property
    def by_executor(self) -> Mapping[str, list[Component]]:
        """Executor -> the components that it implements."""
        found: dict[str, list[Component]] = {name: [] for name in self.executors}
        for component in self.by_name.values():
            label = component.spec.get("executorLabel")
            if label in found:
                found[label].append(component)
        return found

    def problems(self) -> Iterator[Problem]:
        """Check the components themselves: their implementations, definitions, names and uses."""
        if not self.root.tasks:
            yield Problem("root", "has no `dag.tasks`. A pipeline has a task at least.")
        for component in self.all:
            yield from self._implementation(component)
            yield from _definitions(component)
        needs = {
            name: [found.name for task in component.tasks.values() if (found := self.of(task))]
            for name, component in self.by_name.items()
        }
        if cycle := find_cycle(needs):
            yield Problem(entry("components", cycle[0]), f"runs itself: {' -> '.join(cycle)}.")
        for name, uses in self.uses.items():
            if not uses:
                yield Problem(entry("components", name), "no task runs it. Remove it.")
        used = [self.executors[name] for name, components in self.by_executor.items() if components]
        for name, components in self.by_executor.items():
            # kfp's own compiler leaves a copy behind where one pipeline is a part of two others.
            if not components and self.executors[name] not in used:
                yield Problem(entry("deploymentSpec.executors", name), "no component uses it. Remove it.")

    def _implementation(self, component: Component) -> Iterator[Problem]:
        label = component.spec.get("executorLabel")
        if component is self.root:
            if label is not None:
                yield Problem("root.executorLabel", "the root is a DAG. Put the executor's component into a task.")
        elif label is None and "dag" not in component.spec:
            yield Problem(component.place, "has neither `dag` nor `executorLabel`.")
        if label is not None and label not in self.executors:
            reason = f"there is no executor {quoted(label)}. {did_you_mean(label, self.executors)}"
            yield Problem(at(component.place, "executorLabel"), reason)


def type_of(definition: Json) -> str | None:
    """The type of a parameter; None where its definition has none."""
    return definition.get("parameterType") or _OLDER.get(definition.get("type", ""))


def is_required(definition: Json) -> bool:
    """Return True if a task must give the input of this definition."""
    return not definition.get("isOptional") and "defaultValue" not in definition


def fits(value: Any, type: str | None) -> bool:
    """Return True if a constant can be the value of a parameter of that type; a text with a placeholder may become
    anything."""
    if type is None or (isinstance(value, str) and "{{$" in value):
        return True
    if type == "STRING":
        return isinstance(value, str)
    if type == "BOOLEAN":
        return isinstance(value, bool)
    if type == "LIST":
        return isinstance(value, list)
    if type == "STRUCT":
        return isinstance(value, dict)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return type != "NUMBER_INTEGER" or float(value).is_integer()


def _definitions(component: Component) -> Iterator[Problem]:
    for kind, definitions in (("inputDefinitions", component.inputs), ("outputDefinitions", component.outputs)):
        for flow in FLOWS:
            for name, definition in definitions(flow).items():
                place = entry(at(component.place, kind, flow), name)
                if not name or _NO_NAME & set(name):
                    yield Problem(place, "no placeholder can spell this name. Use letters, digits, `_` and `-`.")
                if flow == "artifacts":
                    if not {"schemaTitle", "schemaUri", "instanceSchema"} & definition.get("artifactType", {}).keys():
                        yield Problem(place, "has no `artifactType`, such as {schemaTitle: system.Artifact}.")
                    continue
                type = type_of(definition)
                if type is None:
                    yield Problem(place, "has no `parameterType`, such as STRING.")
                elif "defaultValue" in definition and not fits(definition["defaultValue"], type):
                    yield Problem(at(place, "defaultValue"), f"is no {type}.")
