"""The meaning of a pipeline's IR: each task with its component and executor inside, without what no server looks at.

Left out are names of components and executors, inputs of groups that kfp's compiler added and nothing takes, the
version of the compiler, and the older fields of resources, which servers read where the newer ones are missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in
from drivetrain.native.kubeflow import CHANNEL, FLOWS
from drivetrain.targets.kubeflow.ir.executors import PLATFORM

Json = dict[str, Any]
MOST_TASKS, DEEPEST = 5_000, 30
_OLDER = {"Cpu": ("cpuLimit", "cpuRequest"), "Memory": ("memoryLimit", "memoryRequest")}


class Meaning:
    """Reads the two documents, which have no problems (ir/check.py)."""

    def __init__(self, spec: Mapping[str, Any], platform: Mapping[str, Any]) -> None:
        self.components: Json = object_in(spec, "components")
        self.executors: Json = object_in(object_in(spec, "deploymentSpec"), "executors")
        kubernetes: Json = dict(object_in(object_in(platform, "platforms"), PLATFORM))
        self.configs: Json = object_in(kubernetes.pop("deploymentSpec", {}), "executors")
        self.left, self.depth = MOST_TASKS, 0
        parts = ("components", "deploymentSpec", "root", "sdkVersion")
        rest: Json = {"kubernetes": kubernetes} if kubernetes else {}
        rest |= {field: value for field, value in spec.items() if field not in parts}
        self.whole = _plain({**rest, "root": self._component(object_in(spec, "root"))})

    def _component(self, given: Json) -> Json:
        component = dict(given)
        if (label := component.pop("executorLabel", None)) is not None:
            component |= self.executors[label]
            if self.configs.get(label):
                component["platform"] = self.configs[label]
            if "container" in component:
                component["container"] = _container(component["container"])
        if "dag" in component:
            tasks: Json = object_in(component["dag"], "tasks")
            component["dag"] = {**component["dag"], "tasks": {name: self._task(task) for name, task in tasks.items()}}
        return _full(component, "inputDefinitions", "outputDefinitions")

    def _task(self, given: Json) -> Json:
        self.left, self.depth = self.left - 1, self.depth + 1
        if self.left < 0 or self.depth > DEEPEST:
            what = f"more than {MOST_TASKS:,} tasks, those of repeated parts counted each time, or {DEEPEST} levels"
            raise UserError(f"The pipeline has {what}, which no code can show.")
        task = {field: value for field, value in given.items() if field != "componentRef"}
        component = self._component(self.components[given["componentRef"]["name"]])
        self.depth -= 1
        if needed := task.pop("dependentTasks", None):
            task["dependentTasks"] = sorted(needed)
        for iterator in (task[name] for name in ("parameterIterator", "artifactIterator") if name in task):
            if "raw" in iterator.get("items", {}):
                task["parameterIterator"] = {**iterator, "items": {"raw": json.loads(iterator["items"]["raw"])}}
        if "dag" in component:
            around = {field: value for field, value in task.items() if field != "inputs"}
            used = json.dumps([component["dag"], around])
            for flow in FLOWS:
                for holder, field in ((task, "inputs"), (component, "inputDefinitions")):
                    found = object_in(object_in(holder, field), flow)
                    kept = {name: each for name, each in found.items() if _is_used(name, used)}
                    holder[field] = {**object_in(holder, field), flow: kept}
        return {**_full(task, "inputs"), "component": _full(component, "inputDefinitions")}


def _is_used(name: str, text: str) -> bool:
    return not name.startswith(CHANNEL) or json.dumps(name) in text or f"'{json.dumps(name)[1:-1]}'" in text


def _container(given: Json) -> Json:
    resources = dict(object_in(given, "resources"))
    for what, names in _OLDER.items():
        for name, bound in zip(names, ("Limit", "Request"), strict=True):
            if f"resource{what}{bound}" in resources:
                resources.pop(name, None)
    if "resourceType" in (accelerator := dict(object_in(resources, "accelerator"))):
        older = {"type": "resourceType", "count": "resourceCount"}
        dropped = {field for field, newer in older.items() if newer in accelerator}
        resources["accelerator"] = {field: value for field, value in accelerator.items() if field not in dropped}
    return _full({**given, "resources": resources}, "resources")


def _plain(value: Any) -> Any:
    """JSON with whole numbers as such."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in cast("Json", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _full(given: Json, *flows: str) -> Json:
    """An object without those of these fields that are empty, or whose flows all are."""
    found = dict(given)
    for field in flows:
        found[field] = {flow: each for flow, each in object_in(found, field).items() if each}
    return {field: value for field, value in found.items() if value or field not in flows}


def differences(one: Json, other: Json) -> Iterator[str]:
    """Lines about what differs between two meanings, with its place."""
    ours, theirs = dict(_leaves(one, "")), dict(_leaves(other, ""))
    for place in {**ours, **theirs}:
        if ours.get(place) != theirs.get(place):
            yield f"{place}: {ours.get(place, 'nothing'):.80} became {theirs.get(place, 'nothing'):.80}"


def _leaves(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Place -> JSON of what has no parts."""
    parts = list(cast("Json", value).items()) if isinstance(value, dict) else []
    parts += list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []
    for name, each in parts:
        yield from _leaves(each, f"{place}.{name}" if isinstance(name, str) else f"{place}[{name}]")
    if not parts:
        yield place.removeprefix("."), json.dumps(value)
