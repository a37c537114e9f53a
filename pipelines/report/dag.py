"""A DAG to be drawn: what the report, `show` and the terminal know of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
    """`target` runs after `source`. `label` says which branch of a condition it is; `implied` edges follow from others
    (prepare -> train -> evaluate already orders prepare -> evaluate): drawn lightly, or left out where room is short.
    """

    source: str
    target: str
    label: str = ""
    implied: bool = False


@dataclass(frozen=True)
class Dag:
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @classmethod
    def build(
        cls,
        nodes: Iterable[Node],
        needs: Mapping[str, Iterable[str]],
        labels: Mapping[tuple[str, str], str] | None = None,
    ) -> Dag:
        """From each step's predecessors; `labels` names some edges. What `needs` says of unknown steps is left out."""
        listed = tuple(nodes)
        labels = labels or {}
        place = {node.name: index for index, node in enumerate(listed)}
        pairs = [
            (source, node.name)
            for node in listed
            for source in sorted(set(needs.get(node.name, ())), key=lambda name: place.get(name, -1))
            if source in place and source != node.name
        ]
        implied = implied_edges([node.name for node in listed], pairs)
        return cls(
            listed,
            tuple(
                # A branch is never left out: it says under which condition a step runs.
                Edge(source, target, label, (source, target) in implied and not label)
                for source, target in pairs
                for label in [labels.get((source, target), "")]
            ),
        )


def implied_edges(names: list[str], edges: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """The edges that a longer path makes too (what a transitive reduction removes).

    Reachability is one big integer a node, so that thousands of steps take milliseconds.
    """
    from drivetrain.pipelines.report.layout import layers_of

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
