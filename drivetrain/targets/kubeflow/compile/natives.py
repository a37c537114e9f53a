"""Tasks that are the platform's own (drivetrain.native.kubeflow): their components and executors, as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from drivetrain.base.json_text import as_object, object_in
from drivetrain.native.kubeflow import FLOWS, flow_of, inputs_of, outputs_of
from drivetrain.spec.steps import NativeStep
from drivetrain.spec.values import PropertyRef, Reference
from drivetrain.targets.kubeflow.compile.references import PARAMETER_TYPES, References, free_name
from drivetrain.targets.kubeflow.compile.scopes import Channel

Json = dict[str, Any]
_OF_COMPONENT = ("container", "importer", "platform", "dag", "inputs", "types", "defaults", "outputs")


class Natives:
    """Enters tasks into the parts of an IR."""

    def __init__(self, references: References, components: Json, executors: Json, platform: Json) -> None:
        self.references, self.components, self.executors, self.platform = references, components, executors, platform

    def fill(self, step: NativeStep) -> None:
        """A step in its DAG."""
        scope, name = self.references.placed[step.name]
        channels: dict[str, Channel] = {}

        def type_of(value: Any) -> Json:
            if isinstance(value, PropertyRef):
                return plain(self.references.native(value)[2])
            return self.references.channel(value).definition if isinstance(value, Reference) else {}

        for key, value in object_in(step.fields, "inputs").items():
            if isinstance(value, Reference):
                channels[key] = self.references.channel(value)
        for field, value in self.enter(name, step.fields, type_of).items():
            known = scope.tasks[name].get(field)
            scope.tasks[name][field] = {**known, **value} if isinstance(known, dict) else value
        for key, channel in channels.items():
            scope.connect(name, key, channel)

    def enter(self, name: str, task: Mapping[str, Any], type_of: Callable[[Any], Json]) -> Json:
        """The task in its DAG, its sources by flow; its component `comp-NAME` is entered.

        Args:
            type_of: gives the type of a source in that DAG.
        """
        inputs = inputs_of(task, type_of)
        component: Json = {}
        if "dag" in task:
            inner: Json = task["dag"]["tasks"]

            def type_inside(source: Json) -> Json:
                return type_in(source, inputs, inner)

            tasks = {
                key: self.enter(free_name(key, self.references.names), each, type_inside) for key, each in inner.items()
            }
            component["dag"] = {**task["dag"], "tasks": tasks}
        else:
            component["executorLabel"] = label = f"exec-{name}"
            self.executors[label] = {kind: task[kind] for kind in ("container", "importer") if kind in task}
            if "platform" in task:
                self.platform[label] = task["platform"]
        definitions: Json = {flow: {} for flow in FLOWS}
        for key, type in inputs.items():
            definitions[flow_of(type)][key] = type
        for field, found in (("inputDefinitions", definitions), ("outputDefinitions", outputs_of(task))):
            if known := {flow: each for flow, each in found.items() if each}:
                component[field] = known
        self.components[f"comp-{name}"] = component
        given: Json = {}
        for key, source in object_in(task, "inputs").items():
            given.setdefault(flow_of(inputs.get(key, {})), {})[key] = source
        rest = {field: value for field, value in task.items() if field not in _OF_COMPONENT}
        return {**rest, **({"inputs": given} if given else {}), "componentRef": {"name": f"comp-{name}"}}


def type_in(source: Json, inputs: Mapping[str, Json], tasks: Mapping[str, Json]) -> Json:
    """The type of a source in a DAG with these inputs and tasks; empty if it is not known."""
    for flow, kind in FLOWS.items():
        if (name := source.get(f"componentInput{kind}")) is not None and "parameterExpressionSelector" not in source:
            return plain(inputs.get(str(name), {}))
        output = object_in(source, f"taskOutput{kind}")
        if (task := tasks.get(str(output.get("producerTask")))) is not None:
            return plain(outputs_of(task)[flow].get(str(output.get(f"output{kind}Key")), {}))
    return {}


def plain(type: Json) -> Json:
    """A type alone, without a default and a description."""
    return {field: type[field] for field in ("parameterType", "artifactType", "isArtifactList") if field in type}


def add_other(other: Mapping[str, Any], ir: Json, platform: Json) -> None:
    """Enter the fields of a pipeline's `other` into the two documents; `kubernetes` is the platform's part."""
    of_spec = {name: value for name, value in other.items() if name not in ("kubernetes", PARAMETER_TYPES)}
    of_platform = {"platforms": {"kubernetes": other["kubernetes"]}} if "kubernetes" in other else {}
    for document, more in ((ir, of_spec), (platform, of_platform)):
        put(document, more)


def put(into: Json, more: Mapping[str, Any]) -> None:
    """Enter fields, over those that are there."""
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            put(into[name], as_object(cast("Json", value)))
        else:
            into[name] = value
