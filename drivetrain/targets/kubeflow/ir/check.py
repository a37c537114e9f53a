"""A pipeline's documents, read within bounds, and everything that is wrong with them.

for problem in problems(read(text, "pipeline.yaml")):
    print(problem)
# root.dag.tasks['train'].inputs.parameters['rate'].componentInputParameter: the pipeline takes no 'rat'. ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from drivetrain.authoring.plain_yaml import load_documents
from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.formatting import printable
from drivetrain.targets.kubeflow.ir.components import FLOWS, Component, Components, Flow
from drivetrain.targets.kubeflow.ir.executors import PLATFORM, executor_problems, platform_problems
from drivetrain.targets.kubeflow.ir.fields import cleaned
from drivetrain.targets.kubeflow.ir.problems import MOST, Json, Problem, at, entry, quoted
from drivetrain.targets.kubeflow.ir.sources import Sources, mismatch, taken
from drivetrain.targets.kubeflow.ir.tasks import task_problems
from drivetrain.targets.target import Inspection

SCHEMA = "2.1.0"
_MOST_SHOWN = 20
_PIPELINE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")
# The Pipelines API takes 32 MB; what kfp and we write for a thousand steps has 3.
MAX_BYTES = 8 * 1024 * 1024
SPEC_FIELDS = ("pipelineInfo", "deploymentSpec", "root")


def components_of(documents: Documents) -> Components:
    """The components of documents, whatever is wrong with them."""
    return Components(
        cleaned(documents.spec, "PipelineSpec", "", []), cleaned(documents.platform, "PlatformSpec", "", [])
    )


def problems(documents: Documents) -> list[Problem]:
    """Find what a cluster would refuse, would never run, or would do otherwise than the text says; the first MOST."""
    found: list[Problem] = []
    spec = cleaned(documents.spec, "PipelineSpec", "", found)
    platform = cleaned(_known_platform(documents.platform, found), "PlatformSpec", "", found)
    components = Components(spec, platform)
    wrong = [problem.place for problem in found]
    # What is missing because it had the wrong type was said already.
    meaning = (problem for problem in _meaning(components) if not _is_around(problem.place, wrong))
    return found[:MOST] + list(islice(meaning, MOST - len(found[:MOST])))


def _known_platform(document: Json, found: list[Problem]) -> Json:
    """Without unknown platforms, since their fields are unknown, too."""
    platforms: Any = document.get("platforms")
    if not isinstance(platforms, dict):
        return document
    given = cast(Json, platforms)
    for name in given.keys() - {PLATFORM}:
        found.append(Problem(entry("platforms", str(name)), f"there is no such platform. Allowed: {PLATFORM}."))
    return {**document, "platforms": {name: given[name] for name in given.keys() & {PLATFORM}}}


def _meaning(components: Components) -> Iterator[Problem]:
    yield from _header(components)
    yield from components.problems()
    for dag in components.all:
        yield from task_problems(components, dag)
        if "dag" in dag.spec:
            yield from output_problems(components, dag)
    yield from executor_problems(components)
    yield from platform_problems(components)
    yield from _workspace(components)


def _header(components: Components) -> Iterator[Problem]:
    name: str = components.spec.get("pipelineInfo", {}).get("name", "")
    if not _PIPELINE_NAME.fullmatch(name):
        yield Problem(
            "pipelineInfo.name",
            f"{quoted(name)} is no name of a pipeline: up to 128 lower case letters, digits and `-`.",
        )
    version: str = components.spec.get("schemaVersion", "")
    if version.rpartition(".")[0] != SCHEMA.rpartition(".")[0]:
        yield Problem("schemaVersion", f"is {quoted(version)}. Known here: {SCHEMA}.")


def _workspace(components: Components) -> Iterator[Problem]:
    """Check that the run has a workspace if an importer downloads into it."""
    platform = components.platform.get("platforms", {}).get(PLATFORM, {})
    if "workspace" in platform.get("pipelineConfig", {}):
        return
    for name, executor in components.executors.items():
        if executor.get("importer", {}).get("downloadToWorkspace"):
            place = at(entry("deploymentSpec.executors", name), "importer.downloadToWorkspace")
            reason = f"there is no workspace. Give platforms.{PLATFORM}.pipelineConfig.workspace.size."
            yield Problem(place, reason)


def _is_around(place: str, wrong: list[str]) -> bool:
    return any(each == place or each.startswith((f"{place}.", f"{place}[")) for each in wrong)


def inspect(text: bytes, source: str) -> Inspection:
    """Everything there is to say of a text: the first MOST problems. What is not known here is a problem, too.

    Raises:
        UserError: it is no pipeline at all.
    """
    documents = read(text, source)
    found = problems(documents)
    num_steps = sum(len(component.tasks) for component in components_of(documents).all)
    facts = {"steps": num_steps, "problems": [problem._asdict() for problem in found]}
    return Inspection(num_steps, num_unchecked=0, problems=_lines(found), notes=(), facts=facts)


def _lines(found: list[Problem]) -> list[str]:
    """Lines for people about what would be refused or done otherwise, each with its place."""
    if not found:
        return []
    said = ["A cluster would refuse, or do otherwise:", *(f"    {each}" for each in found[:_MOST_SHOWN])]
    if len(found) > _MOST_SHOWN:
        least = "at least " if len(found) == MOST else ""
        said.append(f"    ... and {least}{len(found) - _MOST_SHOWN} more")
    return [printable(line) for line in said]


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
        # A body of a loop declares what all iterations together give: a list of what one of its tasks does.
        is_collected = wanted.is_list or wanted.type == "LIST"
        if result is not None and not is_collected and mismatch(result, wanted):
            yield Problem(where, f"is {result.described()}, and {wanted.described()} is declared.")


def _selectors(source: Json, flow: Flow, place: str) -> Iterator[tuple[str, Json]]:
    if flow == "artifacts":
        for i, each in enumerate(source.get("artifactSelectors", ())):
            yield entry(at(place, "artifactSelectors"), i), each
    elif "valueFromParameter" in source:
        yield at(place, "valueFromParameter"), source["valueFromParameter"]
    else:
        for i, each in enumerate(source.get("valueFromOneof", {}).get("parameterSelectors", ())):
            yield entry(at(place, "valueFromOneof.parameterSelectors"), i), each


@dataclass(frozen=True)
class Documents:
    """The two documents of a pipeline's text, unchecked."""

    spec: Json
    platform: Json
    """Empty if it is missing."""


def looks_like_ir(text: bytes) -> bool:
    """Return True if a text seems to be a pipeline of this kind: its top level has a field that no other document
    has."""
    text = text[:MAX_BYTES]
    return any(_is_top_level(text, field.encode()) for field in ("pipelineInfo", "deploymentSpec"))


def _is_top_level(text: bytes, field: bytes) -> bool:
    """In a line of its own without indentation, or as a key of JSON."""
    return text.startswith(field + b":") or b"\n" + field + b":" in text or b'"' + field + b'"' in text


def read(text: bytes, source: str) -> Documents:
    """The documents in a text.

    Args:
        source: names it in messages.

    Raises:
        UserError: too large, no UTF-8, no plain YAML, nested too deeply, or no document of a pipeline.
    """
    if len(text) > MAX_BYTES:
        raise UserError(f"{source}: {len(text):,} bytes are too much. Allowed: {MAX_BYTES:,}.")
    try:
        plain = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{source}: byte {error.start} is not UTF-8. Save the file as UTF-8.") from None
    documents = load_documents(plain, source)
    if len(documents) > 2:
        raise UserError(
            f"{source}: {len(documents)} documents. Allowed: the pipeline's spec, and one for its platforms."
        )
    found = [cast(Json, each) for each in documents if isinstance(each, dict)]
    if len(found) != len(documents) or not found:
        raise UserError(f"{source}: a document is no object. Give the YAML that a compiler of pipelines wrote.")
    spec = found[0]
    if not any(field in spec for field in SPEC_FIELDS):
        raise UserError(
            f"{source}: no pipeline of Kubeflow Pipelines v2: it has none of {', '.join(SPEC_FIELDS)}. Its first "
            f"fields: {', '.join(map(str, list(spec)[:5])) or 'none'}."
        )
    return Documents(spec, found[1] if len(found) == 2 else {})
