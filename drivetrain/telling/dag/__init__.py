"""The DAG as a picture, in SVG and in text. Here is the DAG to be drawn (what the report, `show` and the terminal know
of a pipeline), and where its steps stand: layers, the order inside them, and coordinates.

The layered method of Sugiyama, Tagawa and Toda (1981): longest-path layering, barycentre ordering, and coordinates
that pull neighbours together. Edges over several layers are led through bends, one a layer between. Every phase is
linear or nearly so, and the number of sweeps is fixed: thousands of steps take well under a second.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import pairwise

from drivetrain.base.formatting import status_word
from drivetrain.base.records import dataclass

MAX_SIDE_BY_SIDE = 8
"""More steps in one layer than this are folded where they are alike (folding.py)."""
ORDERING_SWEEPS = 8
PLACING_SWEEPS = 12
# Bends of all long edges together. Beyond, long edges are drawn straight: nobody follows that many lines, and a
# thousand steps that all read from each other would need hundreds of millions.
MAX_BENDS = 20_000


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

    @property
    def subtitle(self) -> str:
        """The status in words (without one, the type) and the note."""
        return " · ".join(part for part in (status_word(self.status) or self.type, self.note) if part)


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


Neighbours = dict[int, list[tuple[int, float]]]


@dataclass(frozen=True)
class Layout:
    """Items 0 .. len(names) - 1 are the nodes; those beyond are bends of long edges.

    `chains` gives, for each edge, the items it runs through, both ends included.
    """

    names: tuple[str, ...]
    layers: tuple[tuple[int, ...], ...]
    chains: dict[tuple[str, str], tuple[int, ...]]
    weights: Mapping[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    """How hard an edge pulls its ends together; 1 where nothing is said."""

    @cached_property
    def layer(self) -> dict[int, int]:
        """Item -> its layer."""
        return {item: index for index, items in enumerate(self.layers) for item in items}

    def is_bend(self, item: int) -> bool:
        return item >= len(self.names)

    @cached_property
    def neighbours(self) -> tuple[Neighbours, Neighbours]:
        """Item -> the items it is joined to in a layer before and in one after, each with the edge's weight."""
        before: Neighbours = {item: [] for items in self.layers for item in items}
        after: Neighbours = {item: [] for items in self.layers for item in items}
        for edge, chain in self.chains.items():
            weight = self.weights.get(edge, 1.0)
            for source, target in pairwise(chain):
                after[source].append((target, weight))
                before[target].append((source, weight))
        return before, after


def layers_of(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Name -> the length of the longest path that leads to it.

    Raises:
        ValueError: when the edges have a cycle.
    """
    after: dict[str, list[str]] = {name: [] for name in names}
    missing = dict.fromkeys(names, 0)
    for source, target in edges:
        after[source].append(target)
        missing[target] += 1
    layer = dict.fromkeys(names, 0)
    ready = deque(name for name in names if not missing[name])
    num_done = 0
    while ready:
        name = ready.popleft()
        num_done += 1
        for target in after[name]:
            layer[target] = max(layer[target], layer[name] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    if num_done < len(names):
        raise ValueError("a graph with a cycle has no layers")
    return layer


def arrange(
    names: Sequence[str],
    edges: Sequence[tuple[str, str]],
    weights: Mapping[tuple[str, str], float] | None = None,
) -> Layout:
    """Layers and the order inside them, with few crossings.

    Raises:
        ValueError: when the edges have a cycle.
    """
    layer = layers_of(names, edges)
    number = {name: index for index, name in enumerate(names)}
    rows: list[list[int]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for name in names:
        rows[layer[name]].append(number[name])
    with_bends = sum(layer[target] - layer[source] - 1 for source, target in edges) <= MAX_BENDS
    chains: dict[tuple[str, str], tuple[int, ...]] = {}
    free = len(names)
    for source, target in edges:
        bends: list[int] = []
        if with_bends:
            for row in range(layer[source] + 1, layer[target]):
                bends.append(free)
                rows[row].append(free)
                free += 1
        chains[source, target] = (number[source], *bends, number[target])
    start = Layout(tuple(names), tuple(map(tuple, rows)), chains, weights or {})
    return Layout(start.names, _ordered(start), chains, start.weights)


def _ordered(layout: Layout) -> tuple[tuple[int, ...], ...]:
    """The layers, each ordered by the mean place of its neighbours, swept down and up; the best of all sweeps."""
    before, after = layout.neighbours
    rows = [list(row) for row in layout.layers]
    best, fewest = layout.layers, _crossings(layout.layers, after, layout.layer)
    for sweep in range(ORDERING_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        towards = before if down else after
        place = {item: index for row in rows for index, item in enumerate(row)}
        for row in rows if down else reversed(rows):
            wish = {
                item: _mean([(place[other], weight) for other, weight in towards[item]], place[item]) for item in row
            }
            row.sort(key=wish.__getitem__)
            place.update({item: index for index, item in enumerate(row)})
        found = tuple(map(tuple, rows))
        crossings = _crossings(found, after, layout.layer)
        if crossings < fewest:
            best, fewest = found, crossings
    return best


def _mean(pulls: list[tuple[float, float]], otherwise: float) -> float:
    return sum(at * weight for at, weight in pulls) / sum(weight for _, weight in pulls) if pulls else otherwise


def _crossings(rows: Sequence[Sequence[int]], after: Neighbours, layer: Mapping[int, int]) -> int:
    """How often edges between neighbouring layers cross: inversions of the targets' order, counted by insertion."""
    total = 0
    for index, row in enumerate(rows[:-1]):
        place = {item: at for at, item in enumerate(rows[index + 1])}
        seen: list[int] = []
        for item in row:
            targets = [place[target] for target, _ in after[item] if layer[target] == index + 1]
            total += sum(len(seen) - bisect_right(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return total


def place(layout: Layout, sizes: Sequence[float], bend_size: float, gap: float) -> dict[int, float]:
    """Item -> the coordinate of its centre along its layer, from 0 on; no two boxes nearer than `gap`.

    `sizes` are the nodes' extents along the layer. Lines through bends are kept straight before boxes are centred.
    """
    before, after = layout.neighbours
    size = {item: bend_size if layout.is_bend(item) else sizes[item] for row in layout.layers for item in row}
    centre: dict[int, float] = {}
    for row in layout.layers:
        at = 0.0
        for item in row:
            centre[item] = at + size[item] / 2
            at += size[item] + gap
    for sweep in range(PLACING_SWEEPS):
        down = sweep % 2 == 0
        towards, rows = (before, layout.layers) if down else (after, tuple(reversed(layout.layers)))
        for row in rows:
            wishes: list[tuple[float, float]] = []
            for item in row:
                pulls = [
                    (centre[other], weight * (8.0 if layout.is_bend(item) and layout.is_bend(other) else 1.0))
                    for other, weight in towards[item]
                ]
                wishes.append((_mean(pulls, centre[item]), sum(weight for _, weight in pulls) or 0.1))
            room = [(size[a] + size[b]) / 2 + gap for a, b in pairwise(row)]
            centre.update(zip(row, _spread(wishes, room), strict=True))
    start = min((centre[item] - size[item] / 2 for item in centre), default=0.0)
    return {item: at - start for item, at in centre.items()}


def _spread(wishes: Sequence[tuple[float, float]], room: Sequence[float]) -> list[float]:
    """Places as near as possible to the wished ones (weighted least squares), in order and `room` apart.

    Isotonic regression by pooling adjacent violators, after the room is taken off.
    """
    offsets = [0.0]
    for wanted in room:
        offsets.append(offsets[-1] + wanted)
    pools: list[tuple[float, float, int]] = []  # mean, weight, number of members
    for (wish, weight), offset in zip(wishes, offsets, strict=False):
        mean, members = wish - offset, 1
        while pools and pools[-1][0] > mean:
            other, other_weight, other_members = pools.pop()
            mean = (mean * weight + other * other_weight) / (weight + other_weight)
            weight, members = weight + other_weight, members + other_members
        pools.append((mean, weight, members))
    means = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]
