"""The DAG as text: boxes and lines for a terminal, or None where it is too wide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from drivetrain.base.formatting import SIGNS, cells, printable
from drivetrain.telling.dag import Dag, Edge, Layout, Node, arrange, place

Paint = Callable[[str, str], str]
"""(text, style) -> the text in that style; styles are a status, `name`, `note` or `line`."""

# More boxes than this are not looked at in a terminal, and a list is better.
MAX_NODES = 60
MAX_NOTE = 40
BOX_HEIGHT = 4
GAP = 3
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES = {
    _UP: "│", _DOWN: "│", _UP | _DOWN: "│", _LEFT: "─", _RIGHT: "─", _LEFT | _RIGHT: "─",
    _UP | _LEFT: "╯", _UP | _RIGHT: "╰", _DOWN | _LEFT: "╮", _DOWN | _RIGHT: "╭",
    _UP | _DOWN | _LEFT: "┤", _UP | _DOWN | _RIGHT: "├", _UP | _LEFT | _RIGHT: "┴", _DOWN | _LEFT | _RIGHT: "┬",
    _UP | _DOWN | _LEFT | _RIGHT: "┼",
}  # fmt: skip


def no_paint(text: str, style: str) -> str:
    """The text as it is."""
    return text


def draw(dag: Dag, *, width: int, paint: Paint = no_paint) -> str | None:
    """The DAG from top to bottom, without its implied edges; None when it needs more than `width` columns or has more
    than MAX_NODES steps.

    Raises:
        ValueError: when the edges have a cycle.
    """
    if not dag.nodes:
        return ""
    if len(dag.nodes) > MAX_NODES:
        return None
    edges = [edge for edge in dag.edges if not edge.implied]
    layout = arrange([node.name for node in dag.nodes], [(edge.source, edge.target) for edge in edges])
    sizes = [_box_width(node) for node in dag.nodes]
    # Boxes of one width look calmer, where there is room for that.
    drawn = _draw(dag, layout, edges, [max(sizes)] * len(sizes), width, paint)
    return drawn if drawn is not None else _draw(dag, layout, edges, sizes, width, paint)


def _draw(
    dag: Dag, layout: Layout, edges: Sequence[Edge], sizes: Sequence[int], width: int, paint: Paint
) -> str | None:
    canvas = _Canvas()
    centres = {item: round(at - 0.5) for item, at in place(layout, [float(s) for s in sizes], 3.0, float(GAP)).items()}
    lefts = _lefts(layout, centres, sizes)
    if max(left + (sizes[item] if not layout.is_bend(item) else 1) for item, left in lefts.items()) > width:
        return None
    row = 0
    for index, items in enumerate(layout.layers):
        for item in items:
            if layout.is_bend(item):
                canvas.down(lefts[item], row, row + BOX_HEIGHT - 1)
            else:
                canvas.box(lefts[item], row, sizes[item], dag.nodes[item])
        row += BOX_HEIGHT
        if index + 1 < len(layout.layers):
            row = _join_layers(canvas, layout, index, row, lefts, sizes, edges)
    return canvas.text(paint)


def _box_width(node: Node) -> int:
    return max(cells(node.label) + (2 if node.status else 0), cells(_note(node))) + 4


def _note(node: Node) -> str:
    long = cells(node.note) > MAX_NOTE
    return (replace(node, note=node.note[: MAX_NOTE - 1] + "…") if long else node).subtitle


def _lefts(layout: Layout, centres: Mapping[int, int], sizes: Sequence[int]) -> dict[int, int]:
    """The leftmost column of each item: whole columns, still in order and apart."""
    lefts: dict[int, int] = {}
    for items in layout.layers:
        free = 0
        for item in items:
            size = 1 if layout.is_bend(item) else sizes[item]
            lefts[item] = max(centres[item] - (size - 1) // 2, free)
            free = lefts[item] + size + GAP
    margin = min(lefts.values())
    return {item: left - margin for item, left in lefts.items()}


def _join_layers(
    canvas: _Canvas,
    layout: Layout,
    index: int,
    row: int,
    lefts: Mapping[int, int],
    sizes: Sequence[int],
    edges: Sequence[Edge],
) -> int:
    """Draw the lines between two layers from `row` on; the row where the next layer starts.

    All lines from one item share a track (a row), as a tree; tracks that would overlap get rows of their own.
    """

    def centre(item: int) -> int:
        return lefts[item] if layout.is_bend(item) else lefts[item] + (sizes[item] - 1) // 2

    labels: dict[tuple[int, int], str] = {}
    nets: dict[int, list[int]] = {}
    for edge in edges:
        chain = layout.chains[edge.source, edge.target]
        for position, (source, target) in enumerate(pairwise(chain)):
            if layout.layer[source] == index:
                nets.setdefault(source, []).append(target)
                if position == 0 and edge.label:
                    labels[source, target] = edge.label
    ports = _target_ports(layout, nets, {source: centre(source) for source in nets}, lefts, sizes)
    tracks: list[list[tuple[int, int]]] = []
    row_of: dict[int, int] = {}
    for source in sorted(nets, key=centre):
        columns = [centre(source), *(ports[source, target] for target in nets[source])]
        span = min(columns), max(columns)
        if span[0] == span[1]:
            continue
        for number, taken in enumerate(tracks):  # noqa: B007
            if all(span[1] < low or high < span[0] for low, high in taken):
                break
        else:
            number = len(tracks)
            tracks.append([])
        tracks[number].append(span)
        row_of[source] = row + number
    last = row + len(tracks)
    for source, targets in nets.items():
        start, track = centre(source), row_of.get(source)
        if not layout.is_bend(source):
            canvas.add(start, row - 1, _DOWN)
        if track is not None:
            columns = [start, *(ports[source, target] for target in targets)]
            canvas.across(min(columns), max(columns), track)
            canvas.down(start, row, track - 1)
            canvas.add(start, track, _UP)
        for target in targets:
            column = ports[source, target]
            if track is not None:
                canvas.add(column, track, _DOWN)
            canvas.down(column, row if track is None else track + 1, last)
            if not layout.is_bend(target):
                canvas.put(column, last, "▼", "line")
            if label := labels.get((source, target)):
                canvas.write(column + 2, last, label, "note")
    return last + 1


def _target_ports(
    layout: Layout,
    nets: Mapping[int, Sequence[int]],
    starts: Mapping[int, int],
    lefts: Mapping[int, int],
    sizes: Sequence[int],
) -> dict[tuple[int, int], int]:
    """The column in which each line enters its target: near the middle, in the order of the sources, one column a
    line, and not in the column from which another source's line comes down (the two would run into each other)."""
    incoming: dict[int, list[int]] = {}
    for source, targets in nets.items():
        for target in targets:
            incoming.setdefault(target, []).append(source)
    ports: dict[tuple[int, int], int] = {}
    for target, sources in incoming.items():
        if layout.is_bend(target):
            ports.update({(source, target): lefts[target] for source in sources})
            continue
        left, size = lefts[target] + 1, sizes[target] - 2
        middle = left + (size - 1) // 2
        free = sorted(range(left, left + size), key=lambda column: abs(column - middle))
        chosen: dict[int, int] = {}
        for source in sources:
            others = {start for other, start in starts.items() if other != source}
            # The columns used up, lines share the middle.
            unused = [c for c in free if c not in others and c not in chosen.values()]
            apart = (c for c in unused if all(abs(c - taken) > 1 for taken in chosen.values()))
            column = next(apart, next(iter(unused), middle))
            chosen[source] = column
        for source, column in zip(sorted(sources, key=starts.__getitem__), sorted(chosen.values()), strict=True):
            ports[source, target] = column
    return ports


class _Canvas:
    """Cells of a character grid; lines are kept as directions, so that where they meet the right sign appears."""

    def __init__(self) -> None:
        self.lines: dict[tuple[int, int], int] = {}
        self.cells: dict[tuple[int, int], tuple[str, str]] = {}

    def add(self, column: int, row: int, directions: int) -> None:
        self.lines[row, column] = self.lines.get((row, column), 0) | directions

    def down(self, column: int, first: int, last: int) -> None:
        for row in range(first, last + 1):
            self.add(column, row, _UP | _DOWN)

    def across(self, first: int, last: int, row: int) -> None:
        for column in range(first, last + 1):
            self.add(column, row, (_LEFT if column > first else 0) | (_RIGHT if column < last else 0))

    def put(self, column: int, row: int, char: str, style: str) -> None:
        self.cells[row, column] = char, style

    def write(self, column: int, row: int, text: str, style: str) -> None:
        for char in printable(text):
            width = cells(char)
            if width == 0:  # an accent belongs to the character before it
                before = self.cells.get((row, column - 1))
                if before:
                    self.put(column - 1, row, before[0] + char, style)
                continue
            self.put(column, row, char, style)
            for covered in range(1, width):
                self.put(column + covered, row, "", style)
            column += width

    def box(self, left: int, top: int, width: int, node: Node) -> None:
        right, bottom = left + width - 1, top + BOX_HEIGHT - 1
        style = node.status or "line"
        for column in range(left, right + 1):
            self.put(column, top, "─", style)
            sides = (_LEFT if column > left else 0) | (_RIGHT if column < right else 0)
            self.add(column, bottom, sides | (_UP if column in (left, right) else 0))
        self.put(left, top, "╭", style)
        self.put(right, top, "╮", style)
        for row in (top + 1, top + 2):
            self.put(left, row, "│", style)
            self.put(right, row, "│", style)
        if node.status:
            self.write(left + 2, top + 1, SIGNS.get(node.status, "•"), style)
        self.write(left + (4 if node.status else 2), top + 1, node.label, "name")
        self.write(left + 2, top + 2, _note(node), "note")

    def text(self, paint: Paint) -> str:
        signs = {at: (_LINES[directions], "line") for at, directions in self.lines.items()} | self.cells
        rows: dict[int, dict[int, tuple[str, str]]] = {}
        for (row, column), cell in signs.items():
            rows.setdefault(row, {})[column] = cell
        return "\n".join(_painted(rows.get(row, {}), paint) for row in range(max(rows, default=-1) + 1))


def _painted(row: Mapping[int, tuple[str, str]], paint: Paint) -> str:
    """One line of the drawing, runs of one style painted together."""
    line, run, style = "", "", ""
    for column in range(max(row, default=-1) + 1):
        char, its = row.get(column, (" ", ""))
        if its != style:
            line += paint(run, style) if style else run
            run, style = "", its
        run += char
    return line + (paint(run, style) if style else run)
