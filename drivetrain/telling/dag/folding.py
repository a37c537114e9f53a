"""Steps that stand side by side and are alike, as one: a sweep of thirty trainings is one box, and so is what follows.

Steps are alike that have the same kind and status, and whose neighbours are alike on both sides, branch by branch: the
coarsest partition that is stable (R. Paige and R. Tarjan, "Three Partition Refinement Algorithms", 1987).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from drivetrain.base.formatting import count
from drivetrain.telling.dag import MAX_SIDE_BY_SIDE, Dag, Edge, Node, layers_of

# What people look for stays a box of its own.
_NEVER = ("Failed", "Executing", "Retrying", "Interrupted", "Stopped")


def folded(dag: Dag) -> Dag:
    """The DAG with more than MAX_SIDE_BY_SIDE steps that are alike as one of them, named after all of them."""
    layers = layers_of([node.name for node in dag.nodes], [(edge.source, edge.target) for edge in dag.edges])
    if max(Counter(layers.values()).values(), default=0) <= MAX_SIDE_BY_SIDE:
        return dag
    classes = _alike(dag, layers)
    members: dict[int, list[Node]] = {}
    for node in dag.nodes:
        members.setdefault(classes[node.name], []).append(node)
    stands_for: dict[str, str] = {}
    nodes: list[Node] = []
    for node in dag.nodes:
        alike = members[classes[node.name]]
        fits = len(alike) > MAX_SIDE_BY_SIDE and node.status not in _NEVER
        first = alike[0] if fits else node
        stands_for[node.name] = first.name
        if first is node:
            nodes.append(_together(alike) if fits else node)
    edges = [replace(edge, source=stands_for[edge.source], target=stands_for[edge.target]) for edge in dag.edges]
    return Dag.build(nodes, edges)


def _together(alike: list[Node]) -> Node:
    first, last = alike[0], alike[-1]
    return replace(first, title=count(len(alike), "step"), note=f"{first.label} … {last.label}")


def _alike(dag: Dag, layers: Mapping[str, int]) -> dict[str, int]:
    """Node -> the number of its class."""
    before: dict[str, list[Edge]] = {node.name: [] for node in dag.nodes}
    after: dict[str, list[Edge]] = {node.name: [] for node in dag.nodes}
    for edge in dag.edges:
        after[edge.source].append(edge)
        before[edge.target].append(edge)
    classes = _numbered({node.name: (node.type, node.status, layers[node.name]) for node in dag.nodes})
    while True:
        finer = _numbered(
            {
                name: (
                    number,
                    frozenset((classes[edge.source], edge.label) for edge in before[name]),
                    frozenset((classes[edge.target], edge.label) for edge in after[name]),
                )
                for name, number in classes.items()
            }
        )
        if len(set(finer.values())) == len(set(classes.values())):
            return classes
        classes = finer


def _numbered(keys: Mapping[str, object]) -> dict[str, int]:
    numbers: dict[object, int] = {}
    return {name: numbers.setdefault(key, len(numbers)) for name, key in keys.items()}
