"""The DAG as a picture, in SVG and in text. Here is the DAG to be drawn: what the report, `show` and the terminal know
of a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

STATUSES = (
    "Succeeded",
    "Cached",
    "Executing",
    "Retrying",
    "Waiting",
    "Failed",
    "Stopped",
    "Interrupted",
    "NotExecuted",
)

MAX_SIDE_BY_SIDE = 8
"""More steps in one layer than this are folded where they are alike (folding.py)."""


@dataclass(frozen=True, slots=True)
class Node:
    """One step. `status` is None where nothing has run; `note` is a few words under the name, such as `1.8 s`."""

    name: str
    type: str
    title: str = ""
    status: str | None = None
    note: str = ""

    @property
    def label(self) -> str:
        return self.title or self.name


@dataclass(frozen=True, slots=True)
class Edge:
    """`target` runs after `source`. `label` says which branch of a condition it is, `carries` what flows along it;
    `implied` edges follow from others (prepare -> train -> evaluate already orders prepare -> evaluate): drawn lightly,
    or left out where room is short.
    """

    source: str
    target: str
    label: str = ""
    carries: str = ""
    implied: bool = False


@dataclass(frozen=True)
class Dag:
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @classmethod
    def build(cls, nodes: Iterable[Node], edges: Iterable[Edge]) -> Dag:
        """The DAG with its implied edges marked. Edges of steps that are not among the nodes are left out.

        Raises:
            ValueError: when the edges have a cycle.
        """
        listed = tuple(nodes)
        names = [node.name for node in listed]
        known = set(names)
        kept = {
            (edge.source, edge.target): edge
            for edge in edges
            if edge.source in known and edge.target in known and edge.source != edge.target
        }
        implied = implied_edges(names, list(kept))
        # A branch is never left out: it says under which condition a step runs.
        return cls(
            listed,
            tuple(replace(edge, implied=pair in implied and not edge.label) for pair, edge in kept.items()),
        )


def implied_edges(names: list[str], edges: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """The edges that a longer path makes too (what a transitive reduction removes).

    Reachability is one big integer a node, so that thousands of steps take milliseconds.
    """
    from drivetrain.report.dag.layout import layers_of

    place = {name: index for index, name in enumerate(names)}
    after: dict[str, list[str]] = {name: [] for name in names}
    for source, target in edges:
        after[source].append(target)
    layer = layers_of(names, edges)
    reached: dict[str, int] = {}
    implied: set[tuple[str, str]] = set()
    for name in sorted(names, key=lambda name: -layer[name]):
        beyond = 0
        for target in after[name]:
            beyond |= reached[target]
        implied.update((name, target) for target in after[name] if beyond >> place[target] & 1)
        for target in after[name]:
            beyond |= 1 << place[target]
        reached[name] = beyond
    return implied
