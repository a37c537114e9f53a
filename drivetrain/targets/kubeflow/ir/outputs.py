"""Check the outputs of a DAG: each must be an output of one of its tasks, of the same type."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import did_you_mean
from drivetrain.targets.kubeflow.ir.components import FLOWS, Component, Components, Flow
from drivetrain.targets.kubeflow.ir.problems import Json, Problem, at, entry, quoted
from drivetrain.targets.kubeflow.ir.sources import Given, Sources, mismatch, taken


def output_problems(components: Components, dag: Component) -> Iterator[Problem]:
    """Everything that is wrong with the outputs of a DAG."""
    sources = Sources(components, dag)
    given: Json = dag.spec.get("dag", {}).get("outputs", {})
    for flow in FLOWS:
        definitions, selected = dag.outputs(flow), given.get(flow, {})
        place = at(dag.place, "dag.outputs", flow)
        for name, source in selected.items():
            if name not in definitions:
                reason = f"`outputDefinitions` has no {quoted(name)}. {did_you_mean(name, definitions)}"
                yield Problem(entry(place, name), reason)
            yield from _output(source, definitions.get(name, {}), flow, sources, entry(place, name))
        for name in definitions.keys() - selected.keys():
            yield Problem(entry(at(dag.place, "outputDefinitions", flow), name), "no task of the DAG gives it.")


def _output(source: Json, definition: Json, flow: Flow, sources: Sources, place: str) -> Iterator[Problem]:
    wanted = taken(definition, flow)
    selectors = list(_selectors(source, flow, place))
    if not selectors:
        yield Problem(place, "no task is named that gives it.")
    key = "outputParameterKey" if flow == "parameters" else "outputArtifactKey"
    for where, selector in selectors:
        found: list[Problem] = []
        result = sources.output(
            selector.get("producerSubtask"), selector.get(key), flow, where, found, field="producerSubtask"
        )
        yield from found
        if result is not None and not _is_collected(wanted) and mismatch(result, wanted):
            yield Problem(where, f"is {result.described()}, and {wanted.described()} is declared.")


def _is_collected(wanted: Given) -> bool:
    """A body of a loop declares what all iterations together give: a list of what one of its tasks does."""
    return wanted.is_list or wanted.type == "LIST"


def _selectors(source: Json, flow: Flow, place: str) -> Iterator[tuple[str, Json]]:
    if flow == "artifacts":
        for i, each in enumerate(source.get("artifactSelectors", ())):
            yield entry(at(place, "artifactSelectors"), i), each
    elif "valueFromParameter" in source:
        yield at(place, "valueFromParameter"), source["valueFromParameter"]
    else:
        for i, each in enumerate(source.get("valueFromOneof", {}).get("parameterSelectors", ())):
            yield entry(at(place, "valueFromOneof.parameterSelectors"), i), each
