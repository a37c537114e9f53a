"""The tasks of a DAG: which components they run, what they take, after which others, when, and how often."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from drivetrain.base.errors import did_you_mean
from drivetrain.spec.pipeline import find_cycle
from drivetrain.targets.kubeflow.ir import cel, placeholders
from drivetrain.targets.kubeflow.ir.components import FLOWS, Component, Components, Flow, Use, is_required, type_of
from drivetrain.targets.kubeflow.ir.problems import Json, Problem, at, entry, quoted
from drivetrain.targets.kubeflow.ir.sources import COMPLETED, STATUS, Given, Sources, constant_problems, mismatch, taken

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LONGEST_NAME = 253
# What kfp's compiler gives a task beside its component's inputs, where a setting of its container is a parameter.
_OF_SETTINGS = frozenset(
    (
        "accelerator_count",
        "accelerator_type",
        "base_image",
        "cpu_limit",
        "cpu_request",
        "memory_limit",
        "memory_request",
    )
)
_CEL_TYPES = {
    "BOOLEAN": "boolean",
    "LIST": "list",
    "NUMBER_DOUBLE": "number",
    "NUMBER_INTEGER": "number",
    "STRING": "text",
    "STRUCT": "object",
}


def task_problems(components: Components, dag: Component) -> Iterator[Problem]:
    """Everything that is wrong with the tasks of a DAG."""
    sources = Sources(components, dag)
    for name, spec in dag.tasks.items():
        use = Use(dag, name, spec)
        if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
            yield Problem(
                use.place, "is no name of a task. Use lower case letters, digits and single `-` between them."
            )
        component = components.of(spec)
        if component is None:
            given = spec.get("componentRef", {}).get("name")
            reason = "names no component." if given is None else f"there is no component {quoted(given)}. "
            reason += "" if given is None else did_you_mean(given, components.by_name)
            yield Problem(at(use.place, "componentRef"), reason)
            continue
        yield from _inputs(use, component, sources)
        yield from _order(use, sources)
        yield from _trigger(use, component)
        yield from _iterator(use, component, sources)
        yield from _retry(use)
    needs = {name: _needs(Use(dag, name, spec)) for name, spec in dag.tasks.items()}
    if cycle := find_cycle(needs):
        yield Problem(entry(at(dag.place, "dag", "tasks"), cycle[0]), f"waits for itself: {' -> '.join(cycle)}.")


def _inputs(use: Use, component: Component, sources: Sources) -> Iterator[Problem]:
    for flow in FLOWS:
        definitions = component.inputs(flow)
        place = at(use.place, "inputs", flow)
        spare = _spare(use, flow)
        for name, source in use.inputs(flow).items():
            where = entry(place, name)
            if name not in definitions and name not in spare:
                reason = (
                    f"component {quoted(component.name)} takes no {quoted(name)}. {did_you_mean(name, definitions)}"
                )
                yield Problem(where, reason)
            yield from _input(use, source, taken(definitions.get(name, {}), flow), flow, sources, where)
        for name, definition in definitions.items():
            if type_of(definition) == STATUS and name not in use.inputs(flow):
                reason = f"component {quoted(component.name)} learns by {quoted(name)} how a task ended. "
                yield Problem(place, f"{reason}Give its `taskFinalStatus`, in an exit task.")
            elif is_required(definition) and name not in use.inputs(flow) and name != use.iterator.get("itemInput"):
                reason = f"component {quoted(component.name)} wants {quoted(name)}, which is not given."
                yield Problem(place, reason)


def _input(use: Use, source: Json, wanted: Given, flow: Flow, sources: Sources, where: str) -> Iterator[Problem]:
    if not source.keys() - {"parameterExpressionSelector"}:
        yield Problem(where, "has no source.")
        return
    if "taskFinalStatus" in source:
        yield from _status(use, source["taskFinalStatus"].get("producerTask"), wanted, sources, where)
        return
    if "runtimeValue" in source:
        yield from constant_problems(source, wanted.type, where)
        names = use.inputs("parameters")
        yield from placeholders.problems(
            source["runtimeValue"].get("constant"), where, {".inputs.parameters": names.__contains__}
        )
        return
    found: list[Problem] = []
    given = sources.given(source, flow, where, found)
    yield from found
    if wanted.type == STATUS:
        yield Problem(where, "takes how a task ended. Give `taskFinalStatus`.")
    elif given is not None and "parameterExpressionSelector" not in source and mismatch(given, wanted):
        yield Problem(where, f"is {given.described()}, and {wanted.described()} is wanted.")


def _status(use: Use, producer: str | None, wanted: Given, sources: Sources, where: str) -> Iterator[Problem]:
    """An exit task is told how another one ended."""
    place = at(where, "taskFinalStatus.producerTask")
    if wanted.type not in (STATUS, None):
        yield Problem(where, f"takes {wanted.type}, not how a task ended ({STATUS}).")
    yield from sources.producer(producer, place)
    if producer and producer in use.dag.tasks and producer not in use.spec.get("dependentTasks", ()):
        yield Problem(place, f"`dependentTasks` lacks {quoted(producer)}, whose status the task takes.")
    if use.spec.get("triggerPolicy", {}).get("strategy") != COMPLETED:
        reason = f"an exit task runs however that one ended. Give triggerPolicy.strategy: {COMPLETED}."
        yield Problem(where, reason)


def _spare(use: Use, flow: Flow) -> frozenset[str]:
    """Inputs beside those of the component: what placeholders in other inputs stand for."""
    if flow == "artifacts":
        return frozenset()
    constants = [source.get("runtimeValue", {}).get("constant") for source in use.inputs(flow).values()]
    return _OF_SETTINGS | {name for each in constants for name in placeholders.input_names(each)}


def _producers(use: Use) -> set[str]:
    """The tasks from which it takes something."""
    sources = [*use.inputs("parameters").values(), *use.inputs("artifacts").values()]
    outputs = [source.get(f"taskOutput{word}", {}) for source in sources for word in ("Parameter", "Artifact")]
    return {output["producerTask"] for output in outputs if "producerTask" in output}


def _needs(use: Use) -> list[str]:
    return sorted({*_producers(use), *use.spec.get("dependentTasks", ())} & use.dag.tasks.keys())


def _order(use: Use, sources: Sources) -> Iterator[Problem]:
    dependent: list[str] = use.spec.get("dependentTasks", [])
    for i, name in enumerate(dependent):
        yield from sources.producer(name, entry(at(use.place, "dependentTasks"), i))
    for name in sorted(_producers(use) & use.dag.tasks.keys() - set(dependent)):
        yield Problem(at(use.place, "dependentTasks"), f"lacks {quoted(name)}, whose output the task takes.")


def _trigger(use: Use, component: Component) -> Iterator[Problem]:
    policy: Json = use.spec.get("triggerPolicy", {})
    condition = policy.get("condition")
    if not condition:
        return
    place = at(use.place, "triggerPolicy.condition")

    def type_(reference: cel.Reference) -> str | None:
        if reference.flow == "artifacts":
            return None
        return _CEL_TYPES.get(type_of(component.inputs("parameters").get(reference.name, {})) or "")

    try:
        found = cel.references(condition, type_)
    except cel.CelError as error:
        yield Problem(place, str(error))
        return
    for flow, name in found:
        given = use.inputs("artifacts" if flow == "artifacts" else "parameters")
        if name not in given:
            yield Problem(place, f"the task takes no {quoted(name)}. {did_you_mean(name, given)}")


def _iterator(use: Use, component: Component, sources: Sources) -> Iterator[Problem]:
    if not use.iterator:
        if "iteratorPolicy" in use.spec:
            yield Problem(
                at(use.place, "iteratorPolicy"), "there is no iterator. Give `parameterIterator`, or neither."
            )
        return
    flow: Flow = "parameters" if "parameterIterator" in use.spec else "artifacts"
    place = at(use.place, "parameterIterator" if flow == "parameters" else "artifactIterator")
    item = use.iterator.get("itemInput")
    if item not in component.inputs(flow):
        reason = f"component {quoted(component.name)} takes no {quoted(str(item))}. "
        yield Problem(at(place, "itemInput"), reason + did_you_mean(str(item), component.inputs(flow)))
    items: Json = use.iterator.get("items", {})
    if "raw" in items:
        if not _is_list(items["raw"]):
            yield Problem(at(place, "items.raw"), "is no JSON list.")
    else:
        field = "inputParameter" if flow == "parameters" else "inputArtifact"
        yield from _items(use, items.get(field), flow, sources, at(place, "items", field))
    limit = int(use.spec.get("iteratorPolicy", {}).get("parallelismLimit", 0))
    if limit < 0:
        yield Problem(
            at(use.place, "iteratorPolicy.parallelismLimit"), f"is {limit}. Give 1 or more, or 0 for no limit."
        )


def _items(use: Use, name: Any, flow: Flow, sources: Sources, place: str) -> Iterator[Problem]:
    given = use.inputs(flow)
    if name not in given:
        yield Problem(place, f"the task takes no {quoted(str(name))}. {did_you_mean(str(name), given)}")
        return
    if "parameterExpressionSelector" in given[name] or "runtimeValue" in given[name]:
        constant = given[name].get("runtimeValue", {}).get("constant")
        if constant is not None and not isinstance(constant, list):
            yield Problem(place, f"{quoted(name)} is no list.")
        return
    result = sources.given(given[name], flow, place, [])  # its own problems are said of the input
    if result is not None and result.type is not None and not (result.is_list or result.type == "LIST"):
        yield Problem(place, f"{quoted(name)} is {result.described()}, no list.")


def _is_list(raw: str) -> bool:
    try:
        return isinstance(json.loads(raw), list)
    except (ValueError, RecursionError):
        return False


def _retry(use: Use) -> Iterator[Problem]:
    policy: Json = use.spec.get("retryPolicy", {})
    place = at(use.place, "retryPolicy")
    for name in ("maxRetryCount", "backoffFactor"):
        if float(policy.get(name, 0)) < 0:
            yield Problem(at(place, name), f"is {policy[name]}. Give 0 or more.")
    if not float(factor := policy.get("backoffFactor", 1)).is_integer():
        reason = "The run ends with an error when the first retry is due. Give a whole number."
        yield Problem(at(place, "backoffFactor"), f"is {factor}. {reason}")
