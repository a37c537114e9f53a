"""Two IRs compared by what they mean: steps that come and go, and what changes of each, in words.

+ step register
train: --epochs 10 -> 20
train: image repo/a:1 -> repo/a:2
code
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from drivetrain.base.masking import mask
from drivetrain.targets.kubeflow.compile.notices import STEPS
from drivetrain.targets.kubeflow.compile.tasks import DOCUMENT

MAX_TEXT = 80
PIPELINE, CODE = "pipeline", "code"
Json = Mapping[str, Any]
Fields = dict[str, Any]
_CODE_FOLDER = re.compile(r"/code/[0-9a-f]{64}/")
_CHANNEL = "pipelinechannel--"
_ABSENT = object()


def whole(ir: Json, platform: Json) -> Json:
    """A spec as the API gives it: the IR alone, or both documents by their names."""
    return {"pipeline_spec": ir, "platform_spec": platform} if platform else ir


def differences(old: Json, new: Json) -> list[str]:
    """List the changes from one spec to another, a line each; empty if they mean the same."""
    before, after = _view(old), _view(new)
    lines = [f"- step {owner}" for owner in before if owner not in after]
    lines += [f"+ step {owner}" for owner in after if owner not in before]
    for owner, fields in after.items():
        if owner in before:
            lines += _changes(owner, before[owner], fields)
    return list(dict.fromkeys(lines))


def _changes(owner: str, old: Fields, new: Fields) -> Iterator[str]:
    for name in sorted({*old, *new}):
        before, after = old.get(name, _ABSENT), new.get(name, _ABSENT)
        if before == after:
            continue
        if owner == CODE:
            yield CODE
        else:
            label = name if owner == PIPELINE else f"{owner}: {name}"
            yield f"{label} {_text(name, before)} -> {_text(name, after)}"


def _text(name: str, value: Any) -> str:
    """A value without secrets, as long as a line takes."""
    if value is _ABSENT:
        return "none"
    # Known as a secret by the last word of its place.
    shown = mask({name.split(" ")[-1].lstrip("-"): value})
    text = next(iter(shown.values()))
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _view(spec: Json) -> dict[str, Fields]:
    """Owner (a step, `pipeline`, `code`) -> what is said of it, place -> value."""
    pipeline: Json = spec.get("pipeline_spec", spec)
    platform: Json = spec.get("platform_spec", {})
    components: Json = pipeline.get("components", {})
    executors: Json = pipeline.get("deploymentSpec", {}).get("executors", {})
    extra: Json = platform.get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    found: dict[str, Fields] = {PIPELINE: dict(_pipeline_fields(pipeline)), CODE: {}}
    for around, dag in _dags(pipeline):
        for name, task in sorted(dag["tasks"].items()):
            component: Json = components.get(task["componentRef"]["name"], {})
            label = component.get("executorLabel", "")
            if name == STEPS:  # all of a pipeline that has a notice
                continue
            if name in (f"{around}-then", f"{around}-otherwise"):  # a branch is no step of its own
                condition = task.get("triggerPolicy", {}).get("condition")
                found.setdefault(around, {})[name.removeprefix(f"{around}-")] = condition
                continue
            executor: Json = executors.get(label, {})
            if "importer" in executor:
                uri = str(executor["importer"].get("artifactUri", {}).get("constant", ""))
                owner = CODE if _CODE_FOLDER.search(uri) else PIPELINE
                found[owner][f"data {name.removeprefix('import-')}"] = uri
                continue
            fields = found.setdefault(name, {})
            fields |= dict(_task_fields(task))
            if label:
                fields |= dict(_executor_fields(executor.get("container", {})))
                fields |= dict(_flat("kubernetes", extra.get(label, {})))
    return found


def _dags(pipeline: Json) -> Iterator[tuple[str, Json]]:
    """Each DAG, and the task that it is inside."""
    yield "", pipeline.get("root", {}).get("dag", {"tasks": {}})
    for name, component in sorted(pipeline.get("components", {}).items()):
        if "dag" in component:
            yield name.removeprefix("comp-"), component["dag"]


def _pipeline_fields(pipeline: Json) -> Iterator[tuple[str, Any]]:
    info: Json = pipeline.get("pipelineInfo", {})
    yield from ((f"pipeline's {name}", value) for name, value in info.items())
    given: Json = pipeline.get("root", {}).get("inputDefinitions", {}).get("parameters", {})
    for name, parameter in given.items():
        yield f"parameter {name}", parameter.get("defaultValue", "required")
        yield f"type of parameter {name}", parameter.get("parameterType")


def _task_fields(task: Json) -> Iterator[tuple[str, Any]]:
    if dependencies := task.get("dependentTasks"):
        yield "after", ", ".join(sorted(dependencies))
    yield from _flat("", {name: task[name] for name in ("triggerPolicy", "retryPolicy") if name in task})
    yield "cache", bool(task.get("cachingOptions", {}).get("enableCache"))
    yield from _flat("", {name: task[name] for name in ("parameterIterator", "iteratorPolicy") if name in task})
    yield "title", task.get("taskInfo", {}).get("name")
    for place, value in _flat("input", task.get("inputs", {})):
        # Names of what comes from the DAG around it say how deep the DAG is.
        yield place.replace(_CHANNEL, ""), value.removeprefix(_CHANNEL) if isinstance(value, str) else value


def _executor_fields(container: Json) -> Iterator[tuple[str, Any]]:
    """The command is left out: it differs where the code does."""
    yield "image", container.get("image")
    yield from _flat("", {"resources": container.get("resources", {})})
    for variable in container.get("env", ()):
        if variable["name"] != DOCUMENT:
            yield f"environment {variable['name']}", variable.get("value")
            continue
        document: Any = json.loads(variable["value"])
        for name, value in document.items():
            yield from _arguments(value) if name == "arguments" else _flat(name, value)


def _arguments(words: Any) -> Iterator[tuple[str, Any]]:
    """Options by their names, the others by their places."""
    for place, word in enumerate(cast("list[Any]", words)):
        option: Any = cast("dict[str, Any]", word).get("option") if isinstance(word, dict) else None
        if isinstance(option, list):
            name, *values = cast("list[Any]", option)
            yield str(name), values[0] if len(values) == 1 else values
        else:
            yield f"argument {place}", word


def _flat(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in cast("Json", value).items():
            yield from _flat(f"{place} {name}".strip(), inner)
    elif value not in ({}, None):
        yield place, value
