"""The DAG of a definition, as it is drawn: its steps, and why one waits for another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import Json
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.document.expressions import Get
from drivetrain.targets.sagemaker.document.graph import repeated_names
from drivetrain.telling.dag import Dag, Edge, Node


class Step(NamedTuple):
    """A step; `branch` is the condition it stands directly under and the outcome that leads to it."""

    name: str
    type: str
    display_name: str | None
    branch: tuple[str, bool] | None


class Wait(NamedTuple):
    """`target` waits for `source`; the label names what flows (`train`, `model`), or `yes` and `no` of a condition."""

    source: str
    target: str
    label: str


def picture(definition: Definition) -> tuple[list[Step], list[Wait]]:
    """Nodes and edges in the order in which the steps were written; at most one edge a pair.

    A step in a branch hangs on its condition only when it waits for no other step of that branch.

    Raises:
        UserError: for a reference that cannot be read.
    """
    steps = definition.walk()
    nodes = [Step(s.name, s.type, s.display_name, s.branch[-1] if s.branch else None) for s in steps]
    edges: list[Wait] = []
    for step in steps:
        labels: dict[str, list[str]] = {}
        for get in step.references:
            if get.step is not None:
                labels.setdefault(get.step, []).append(_label(get))
        for dependency in step.depends_on:
            labels.setdefault(dependency.step, []).append(
                f"if {dependency.trigger.lower()}" if dependency.trigger else ""
            )
        if step.branch and not any(_in_branch(definition.by_name.get(source), step.branch) for source in labels):
            condition, outcome = step.branch[-1]
            labels.setdefault(condition, []).append("yes" if outcome else "no")
        edges += [
            Wait(source, step.name, ", ".join(dict.fromkeys(label for label in given if label)))
            for source, given in labels.items()
            if source in definition.by_name
        ]
    return nodes, edges


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


def dag_of(definition: Definition, known: Mapping[str, Node] | None = None) -> Dag:
    """What `definition` says of its steps, of a ForEach the steps of its body in the note; nodes in `known` (with a
    status, of a run) take the place of plain ones.

    Raises:
        UserError: an unreadable reference, several steps of one name, or steps that wait for each other.
    """
    if repeated := next(repeated_names(definition), None):
        raise UserError(f"{repeated} So they cannot be drawn.")
    known = known or {}
    nodes, edges = picture(definition)
    types = {node.name: node.type for node in nodes}
    try:
        return Dag.build(
            [
                known.get(node.name)
                or Node(
                    node.name,
                    node.type,
                    node.display_name or "",
                    note=", ".join(definition.by_name[node.name].body_names),
                )
                for node in nodes
            ],
            [_edge(source, target, label, types.get(source, "")) for source, target, label in edges],
        )
    except ValueError:
        raise UserError(f"{definition.source}: its steps wait for each other, so they cannot be drawn.") from None


def _edge(source: str, target: str, label: str, source_type: str) -> Edge:
    """Branches and triggers are written on the line; what merely flows is told when the pointer rests on it."""
    if source_type == "Condition" or label.startswith("if "):
        return Edge(source, target, label=label)
    return Edge(source, target, carries=label)
