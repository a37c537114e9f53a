"""The platform's part: what is asked of Kubernetes for each executor, and for the run as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from drivetrain.base.errors import did_you_mean
from drivetrain.targets.kubeflow.ir.components import Components
from drivetrain.targets.kubeflow.ir.executors import ALLOWED_QUANTITY, ENVIRONMENT_NAME, amount
from drivetrain.targets.kubeflow.ir.problems import Json, Problem, at, entry, quoted
from drivetrain.targets.kubeflow.ir.sources import Sources

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
