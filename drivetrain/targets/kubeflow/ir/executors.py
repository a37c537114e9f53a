"""Executors: containers and importers, and what is asked of Kubernetes for each and for the run (the platform)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from drivetrain.base.errors import did_you_mean
from drivetrain.targets.kubeflow.image_names import ALLOWED as ALLOWED_IMAGE
from drivetrain.targets.kubeflow.image_names import image_problem
from drivetrain.targets.kubeflow.ir import placeholders
from drivetrain.targets.kubeflow.ir.components import Component, Components
from drivetrain.targets.kubeflow.ir.problems import Json, Problem, at, entry, quoted
from drivetrain.targets.kubeflow.ir.sources import Sources

_QUANTITY = re.compile(
    r"(?P<number>\+?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?P<unit>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?"
)
_UNITS = {
    **{"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18},
    **{f"{prefix}i": 1024.0**power for power, prefix in enumerate("KMGTPE", 1)},
}
ALLOWED_QUANTITY = "Allowed: a number, as in 2, 500m, 512Mi, 1.5Gi, 4G."
ENVIRONMENT_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_RESOURCES = ("Cpu", "Memory")
PLATFORM = "kubernetes"
_DNS = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_WORDS = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "effect": ("NoExecute", "NoSchedule", "PreferNoSchedule"),
    "operator": ("DoesNotExist", "Equal", "Exists", "Gt", "In", "Lt", "NotIn"),
    "accessModes": ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"),
}
_QUANTITIES = ("size", "sizeLimit")
_COUNTS = (
    "activeDeadlineSeconds",
    "resourceTtlOnCompletion",
    "resourceTtlOnFailure",
    "resourceTtlOnSuccess",
    "runAsGroup",
    "runAsUser",
    "tolerationSeconds",
)
# Objects that are mounted or become variables -> the fields that may name them.
_NAMED = {
    "configMapAsEnv": ("configMapName", "configMapNameParameter"),
    "configMapAsVolume": ("configMapName", "configMapNameParameter"),
    "imagePullSecret": ("secretName", "secretNameParameter"),
    "pvcMount": ("constant", "pvcNameParameter", "taskOutputParameter", "componentInputParameter"),
    "secretAsEnv": ("secretName", "secretNameParameter"),
    "secretAsVolume": ("secretName", "secretNameParameter"),
}
_MOUNTED = ("configMapAsVolume", "emptyDirMounts", "genericEphemeralVolume", "pvcMount", "secretAsVolume")


def executor_problems(components: Components) -> Iterator[Problem]:
    """Everything that is wrong with the executors."""
    for name, executor in components.executors.items():
        place = entry("deploymentSpec.executors", name)
        known = _known(components, components.by_executor[name])
        if "container" in executor:
            yield from _container(executor["container"], at(place, "container"), known)
        elif "importer" in executor:
            yield from _importer(executor["importer"], at(place, "importer"), known, components.by_executor[name])
        elif not executor:
            yield Problem(place, "has neither `container` nor `importer`.")


def _known(components: Components, implemented: list[Component]) -> placeholders.Known:
    """Tests for the names that an executor's placeholders may have: those that all of its components have. A task may
    give further inputs, which kfp's compiler adds where a setting of the container is a parameter."""

    def parameter(name: str) -> bool:
        return all(
            name in component.inputs("parameters")
            or all(name in use.inputs("parameters") for use in components.uses[component.name])
            for component in implemented
        )

    def among(of: Callable[[Component], Any]) -> Callable[[str], bool]:
        return lambda name: all(name in of(component) for component in implemented)

    return {
        ".inputs.parameters": parameter,
        ".inputs.artifacts": among(lambda component: component.inputs("artifacts")),
        ".outputs.parameters": among(lambda component: component.outputs("parameters")),
        ".outputs.artifacts": among(lambda component: component.outputs("artifacts")),
    }


def _container(container: Json, place: str, known: placeholders.Known) -> Iterator[Problem]:
    image: str = container.get("image", "")
    if not image:
        yield Problem(at(place, "image"), "is not given.")
    elif "{{$" not in image and (problem := image_problem(image)):
        yield Problem(at(place, "image"), f"{quoted(image)} is no name of an image: {problem}. Give {ALLOWED_IMAGE}.")
    yield from placeholders.problems(image, at(place, "image"), known)
    for field in ("command", "args"):
        for i, word in enumerate(container.get(field, ())):
            yield from placeholders.problems(word, entry(at(place, field), i), known)
    seen: set[str] = set()
    for i, variable in enumerate(container.get("env", ())):
        name: str = variable.get("name", "")
        where = entry(at(place, "env"), i)
        if not ENVIRONMENT_NAME.fullmatch(name):
            yield Problem(at(where, "name"), f"{quoted(name)} is no name of a variable.")
        elif name in seen:
            yield Problem(at(where, "name"), f"{quoted(name)} is given twice.")
        seen.add(name)
    yield from _resources(container.get("resources", {}), at(place, "resources"), known)


def _resources(resources: Json, place: str, known: placeholders.Known) -> Iterator[Problem]:
    for what in _RESOURCES:
        amounts: dict[str, float] = {}
        for bound in ("Request", "Limit"):
            field = f"resource{what}{bound}"
            older = f"{what.lower()}{bound}"
            if float(resources.get(older, 0)) < 0:
                yield Problem(at(place, older), f"is {resources[older]}. Give a number above 0.")
            text = resources.get(field)
            if text is None:
                continue
            if "{{$" in text:
                yield from placeholders.problems(text, at(place, field), known)
                continue
            found = amount(text)
            if found is None or found <= 0:
                yield Problem(at(place, field), f"{quoted(text)} is no quantity above 0. {ALLOWED_QUANTITY}")
            else:
                amounts[bound] = found
        if amounts.get("Request", 0.0) > amounts.get("Limit", float("inf")):
            yield Problem(at(place, f"resource{what}Request"), f"is more than resource{what}Limit.")
    accelerator: Json = resources.get("accelerator", {})
    if accelerator:
        where = at(place, "accelerator")
        kind = accelerator.get("resourceType") or accelerator.get("type")
        count = str(accelerator.get("resourceCount") or accelerator.get("count") or "")
        if not kind:
            yield Problem(at(where, "resourceType"), "is not given. Give the resource's name, such as nvidia.com/gpu.")
        for field, text in (("resourceType", kind or ""), ("resourceCount", count)):
            yield from placeholders.problems(text, at(where, field), known)
        if "{{$" not in count and not (count.isdecimal() and int(count) > 0):
            yield Problem(at(where, "resourceCount"), f"{quoted(count)} is no whole number above 0.")


def _importer(importer: Json, place: str, known: placeholders.Known, implemented: list[Component]) -> Iterator[Problem]:
    uri: Json = importer.get("artifactUri", {})
    where = at(place, "artifactUri")
    constant = uri.get("constant", uri.get("constantValue", {}).get("stringValue"))
    if (name := uri.get("runtimeParameter")) is not None:
        for component in implemented:
            inputs = component.inputs("parameters")
            if name not in inputs:
                reason = f"component {quoted(component.name)} takes no {quoted(name)}. {did_you_mean(name, inputs)}"
                yield Problem(at(where, "runtimeParameter"), reason)
    elif not isinstance(constant, str) or not constant:
        yield Problem(where, "has no URI. Give `constant` with a text, or `runtimeParameter` with an input.")
    else:
        yield from placeholders.problems(constant, where, known)
    if not importer.get("typeSchema"):
        yield Problem(at(place, "typeSchema"), "is not given. Give {schemaTitle: system.Artifact}.")
    yield from placeholders.problems(importer.get("metadata"), at(place, "metadata"), known)
    for component in implemented:
        if len(component.outputs("artifacts")) != 1:
            reason = "an importer gives one artifact."
            yield Problem(at(component.place, "outputDefinitions.artifacts"), reason)


def amount(text: str) -> float | None:
    """The number of a quantity of Kubernetes, such as `500m` CPUs or `1.5Gi` bytes; None if it is invalid."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        return None
    unit = found["unit"] or ""
    return float(found["number"]) * (_UNITS[unit] if unit in _UNITS else float(f"1{unit}"))


def platform_problems(components: Components) -> Iterator[Problem]:
    """Everything that is wrong with the platform's document."""
    platform: Json = components.platform.get("platforms", {}).get(PLATFORM, {})
    place = entry("platforms", PLATFORM)
    yield from _values(platform.get("pipelineConfig", {}), at(place, "pipelineConfig"))
    for label, config in platform.get("deploymentSpec", {}).get("executors", {}).items():
        where = entry(at(place, "deploymentSpec.executors"), label)
        if label not in components.executors:
            reason = f"there is no executor {quoted(label)}. {did_you_mean(label, components.executors)}"
            yield Problem(where, reason)
            continue
        yield from _values(config, where)
        yield from _named(config, where)
        for component in components.by_executor[label]:
            for use in components.uses[component.name]:
                yield from _sources(config, where, Sources(components, use.dag))


def _values(value: Any, place: str, field: str = "") -> Iterator[Problem]:
    """Words, counts and quantities, wherever they stand."""
    if isinstance(value, dict):
        for name, item in cast(Json, value).items():
            if name not in ("labels", "annotations", "pvcSpecPatch"):
                yield from _values(item, at(place, name), name)
    elif isinstance(value, list):
        for i, item in enumerate(cast("list[Any]", value)):
            yield from _values(item, entry(place, i), field)
    elif field in _WORDS and value and value not in _WORDS[field]:
        yield Problem(place, f"is {quoted(str(value))}. {did_you_mean(str(value), _WORDS[field])}")
    elif field in _QUANTITIES and amount(str(value)) is None:
        yield Problem(place, f"{quoted(str(value))} is no quantity. {ALLOWED_QUANTITY}")
    elif field in _COUNTS and int(value) < 0:
        yield Problem(place, f"is {value}. Give 0 or more.")
    elif field == "mountPath" and not str(value).startswith("/"):
        yield Problem(place, f"{quoted(str(value))} is no absolute path.")
    elif field == "envVar" and not ENVIRONMENT_NAME.fullmatch(str(value)):
        yield Problem(place, f"{quoted(str(value))} is no name of a variable.")
    elif field in ("secretName", "configMapName") and value and not _DNS.fullmatch(str(value)):
        yield Problem(place, f"{quoted(str(value))} is no name of Kubernetes: lower case letters, digits, `-` and `.`.")


def _named(config: Json, place: str) -> Iterator[Problem]:
    for field, names in _NAMED.items():
        for i, each in enumerate(config.get(field, ())):
            if not any(each.get(name) for name in names):
                yield Problem(entry(at(place, field), i), f"has no name. Give {' or '.join(names[:2])}.")
    mounted: set[str] = set()
    for field in _MOUNTED:
        for i, each in enumerate(config.get(field, ())):
            path: str = each.get("mountPath", "")
            if not path:
                yield Problem(entry(at(place, field), i), "has no `mountPath`.")
            elif path in mounted:
                yield Problem(at(entry(at(place, field), i), "mountPath"), f"{quoted(path)} is mounted twice.")
            mounted.add(path)


def _sources(value: Any, place: str, sources: Sources) -> Iterator[Problem]:
    """Names that a parameter of the DAG has, or an output of a task in it."""
    if isinstance(value, list):
        for i, item in enumerate(cast("list[Any]", value)):
            yield from _sources(item, entry(place, i), sources)
    elif isinstance(value, dict):
        given = cast(Json, value)
        found: list[Problem] = []
        sources.given(given, "parameters", place, found)
        yield from found
        for name, item in given.items():
            if name != "taskOutputParameter":
                yield from _sources(item, at(place, name), sources)
