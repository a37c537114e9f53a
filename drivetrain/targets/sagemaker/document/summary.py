"""What `show` draws of a definition: its steps, and why one waits for another."""

from __future__ import annotations

from typing import NamedTuple

from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.document.expressions import Get


class Node(NamedTuple):
    """A step; `branch` is the condition it stands directly under and the outcome that leads to it."""

    name: str
    type: str
    display_name: str | None
    branch: tuple[str, bool] | None


class Edge(NamedTuple):
    """`target` waits for `source`; the label names what flows (`train`, `model`), or `yes` and `no` of a condition."""

    source: str
    target: str
    label: str


def picture(definition: Definition) -> tuple[list[Node], list[Edge]]:
    """Nodes and edges in the order in which the steps were written; at most one edge a pair.

    A step in a branch hangs on its condition only when it waits for no other step of that branch.

    Raises:
        UserError: for a reference that cannot be read.
    """
    steps = definition.walk()
    nodes = [Node(s.name, s.type, s.display_name, s.branch[-1] if s.branch else None) for s in steps]
    edges: list[Edge] = []
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
            Edge(source, step.name, ", ".join(dict.fromkeys(label for label in given if label)))
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
