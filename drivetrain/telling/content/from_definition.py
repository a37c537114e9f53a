"""The DAG of a definition, as it is drawn: its steps, and why one waits for another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import Json
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.document.expressions import Get
from drivetrain.targets.sagemaker.document.graph import repeated_names
from drivetrain.telling.dag import Dag, Edge, Node


def dag_of(definition: Definition, known: Mapping[str, Node] | None = None) -> Dag:
    """The steps of `definition` as a graph, in the order in which they were written; a ForEach has the steps of its
    body in the note; nodes in `known` (with a status, of a run) take the place of plain ones.

    Raises:
        UserError: an unreadable reference, several steps of one name, or steps that wait for each other.
    """
    if repeated := next(repeated_names(definition), None):
        raise UserError(f"{repeated} So they cannot be drawn.")
    known, steps = known or {}, definition.walk()
    nodes = [
        known.get(step.name) or Node(step.name, step.type, step.display_name or "", note=", ".join(step.body_names))
        for step in steps
    ]
    edges = [edge for step in steps for edge in _edges(definition, step)]
    try:
        return Dag.build(nodes, edges)
    except ValueError:
        raise UserError(f"{definition.source}: its steps wait for each other, so they cannot be drawn.") from None


def _edges(definition: Definition, step: StepNode) -> Iterator[Edge]:
    """One a step that it waits for. What flows (`train`, `model`) is told when the pointer rests on the line; branches
    and triggers are written on it.

    A step in a branch hangs on its condition only when it waits for no other step of that branch.
    """
    labels: dict[str, list[str]] = {}
    for get in step.references:
        if get.step is not None:
            labels.setdefault(get.step, []).append(_label(get))
    for dependency in step.depends_on:
        labels.setdefault(dependency.step, []).append(f"if {dependency.trigger.lower()}" if dependency.trigger else "")
    if step.branch and not any(_in_branch(definition.by_name.get(source), step.branch) for source in labels):
        condition, outcome = step.branch[-1]
        labels.setdefault(condition, []).append("yes" if outcome else "no")
    for source, given in labels.items():
        before, label = definition.by_name.get(source), ", ".join(dict.fromkeys(filter(None, given)))
        if before is not None and (before.type == "Condition" or label.startswith("if ")):
            yield Edge(source, step.name, label=label)
        elif before is not None:
            yield Edge(source, step.name, carries=label)


def _in_branch(step: StepNode | None, branch: tuple[tuple[str, bool], ...]) -> bool:
    return step is not None and step.branch[: len(branch)] == branch


def _label(get: Get) -> str:
    """The part of a path that an author would recognise: an output's name, a metric's file, the last field."""
    if get.property_file is not None:
        return get.property_file
    if get.path == ("ModelArtifacts", "S3ModelArtifacts"):
        return "model"
    if len(get.path) > 2 and isinstance(name := get.path[2], str) and get.path[1] == "Outputs":
        return name
    return str(next((segment for segment in reversed(get.path) if isinstance(segment, str)), ""))


def read_by_conditions(definition: Definition) -> frozenset[str]:
    """The names in the paths by which conditions read reports: `metrics.accuracy.value` -> metrics, accuracy, value."""
    found: set[str] = set()
    left: list[Json] = [step.arguments.get("Conditions") for step in definition.walk() if step.type == "Condition"]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            path = node.get("Path")
            found.update(re.findall(r"[^][.'\"]+", path) if isinstance(path, str) else ())
            left += node.values()
        elif isinstance(node, list):
            left += node
    return frozenset(found)
