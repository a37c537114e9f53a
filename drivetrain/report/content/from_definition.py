"""The DAG of a definition, as it is drawn."""

from __future__ import annotations

from collections.abc import Mapping

from drivetrain.base.errors import UserError
from drivetrain.report.dag.dag import Dag, Edge, Node
from drivetrain.targets.sagemaker.document.document import Definition
from drivetrain.targets.sagemaker.document.graph import repeated_names
from drivetrain.targets.sagemaker.document.summary import picture


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
