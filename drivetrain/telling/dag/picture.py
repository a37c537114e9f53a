"""The DAG as SVG: one card a step, with status in words, colour and sign."""

from __future__ import annotations

from itertools import pairwise

from drivetrain.base.formatting import cells, cut, status_class, status_word
from drivetrain.base.markup import Markup, el, join
from drivetrain.telling import asset
from drivetrain.telling.dag import Dag, Edge, Layout, Node, arrange, place

# More steps than anybody looks at in one picture; a browser takes seconds to draw them.
MAX_NODES = 3_000
MAX_EDGES = 20_000
# The implied lines give way to the others.
IMPLIED_WEIGHT = 0.002
# Layers stand side by side while they fit a page, on which they may be drawn a fifth smaller; else one below the other.
PAGE_WIDTH = 1_360

CARD_HEIGHT = 54.0
MIN_CARD_WIDTH = 150.0
LAYER_GAP = 44.0
LABELLED_GAP = 50.0
ROW_GAP = 18.0
MARGIN = 8.0
# Mean width of a character of the name at 13 px; fonts differ, so names are cut with room to spare.
CHARACTER = 7.3
NOTE_CHARACTER = 5.9

# Signs in a circle of radius 8, so that nobody needs to tell the colours apart.
_SIGNS = {
    "Succeeded": "M-3.6,0.4 L-1,3 L3.8,-2.8",
    "Failed": "M-2.8,-2.8 L2.8,2.8 M2.8,-2.8 L-2.8,2.8",
    "Cached": "M3.6,1.2 A3.8,3.8 0 1 1 3.2,-2 M3.6,-4.4 V-1.6 H0.8",
    "Executing": "M-3.4,0 h0.01 M0,0 h0.01 M3.4,0 h0.01",
    "Retrying": "M3.6,1.2 A3.8,3.8 0 1 1 3.2,-2 M3.6,-4.4 V-1.6 H0.8",
    "Waiting": "M0,-3.6 V0 L2.4,1.6",
    "Stopped": "M-2.2,-2.2 h4.4 v4.4 h-4.4 z",
    "Interrupted": "M-1.8,-2.8 v5.6 M1.8,-2.8 v5.6",
    "NotExecuted": "M-3,0 h6",
    "Unhealthy": "M0,-3.8 V0.8 M0,3.6 h0.01",
}


def dag_svg(dag: Dag, *, title: str, standalone: bool = False) -> Markup:
    """The picture; `standalone` adds the style, so that the file can be opened on its own.

    Raises:
        ValueError: when the edges have a cycle, or there are more than MAX_NODES steps.
    """
    if len(dag.nodes) > MAX_NODES:
        raise ValueError(f"{len(dag.nodes)} steps are too many for one picture; the limit is {MAX_NODES}")
    drawing = _Drawing(dag)
    width, height = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    return el(
        "svg",
        el("title", title),
        el("style", Markup(asset("palette.css") + asset("dag.css"))) if standalone else None,
        el(
            "defs",
            el(
                "marker",
                el("path", d="M0,0 L8,4 L0,8 z", class_="arrow"),
                id="arrow",
                viewBox="0 0 8 8",
                refX=7,
                refY=4,
                markerWidth=7,
                markerHeight=7,
                orient="auto",
            ),
        ),
        el(
            "g",
            el("g", drawing.edges(), class_="edges"),
            el("g", drawing.cards(), class_="cards"),
            transform=f"translate({MARGIN:g},{MARGIN:g})",
        ),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=round(width),
        height=round(height),
        role="img",
        aria_label=title,
        class_="dag alone" if standalone else "dag",
    )


class _Drawing:
    """Coordinates of one picture. `across` draws layers from left to right, else from top to bottom."""

    def __init__(self, dag: Dag) -> None:
        self.dag = dag
        # Lines that repeat what others say are the first to go where there are more than a browser can draw.
        drawn = dag.edges if len(dag.edges) <= MAX_EDGES else [edge for edge in dag.edges if not edge.implied]
        # Implied edges first, so that the others lie above them.
        self.drawn = sorted(drawn, key=lambda edge: not edge.implied)
        self.layout: Layout = arrange(
            [node.name for node in dag.nodes],
            [(edge.source, edge.target) for edge in drawn],
            {(edge.source, edge.target): IMPLIED_WEIGHT for edge in drawn if edge.implied},
        )
        texts = [max(cells(node.label) * CHARACTER, cells(node.subtitle) * NOTE_CHARACTER) for node in dag.nodes]
        self.card_width = min(max(*texts, MIN_CARD_WIDTH - 52, 0) + 52, 250.0)
        num_layers = max(len(self.layout.layers), 1)
        self.layer_gap = LABELLED_GAP if any(edge.label for edge in drawn) else LAYER_GAP
        room = (PAGE_WIDTH - (num_layers - 1) * self.layer_gap) / num_layers
        self.across = room >= min(self.card_width, MIN_CARD_WIDTH)
        if self.across:
            self.card_width = min(self.card_width, room)
        breadth, depth = (CARD_HEIGHT, self.card_width) if self.across else (self.card_width, CARD_HEIGHT)
        self.depth = depth
        at = place(self.layout, [breadth] * len(dag.nodes), 6.0, ROW_GAP)
        self.at = at
        extent = max((at[i] + (0 if self.layout.is_bend(i) else breadth / 2) for i in at), default=0.0)
        length = num_layers * depth + max(num_layers - 1, 0) * self.layer_gap
        self.width, self.height = (length, extent) if self.across else (extent, length)

    def point(self, item: int, end: bool) -> tuple[float, float]:
        """The point at which an edge enters (or, with `end`, leaves) an item, along and across the flow."""
        start = self.layout.layer[item] * (self.depth + self.layer_gap)
        return start + (self.depth if end else 0.0), self.at[item]

    def xy(self, along: float, beside: float) -> str:
        return f"{along:.1f},{beside:.1f}" if self.across else f"{beside:.1f},{along:.1f}"

    def edges(self) -> list[Markup]:
        return [self.edge(edge) for edge in self.drawn]

    def edge(self, edge: Edge) -> Markup:
        chain = self.layout.chains[edge.source, edge.target]
        what = ", ".join(part for part in (edge.label, edge.carries) if part)
        commands = [f"M{self.xy(*self.point(chain[0], True))}"]
        for source, target in pairwise(chain):
            a, b = self.point(source, True), self.point(target, False)
            bow = (b[0] - a[0]) / 2
            commands.append(f"C{self.xy(a[0] + bow, a[1])} {self.xy(b[0] - bow, b[1])} {self.xy(*b)}")
            if self.layout.is_bend(target):
                commands.append(f"L{self.xy(*self.point(target, True))}")
        path = el(
            "path",
            el("title", f"{edge.source} → {edge.target}" + (f": {what}" if what else "")),
            d=" ".join(commands),
            class_="edge implied" if edge.implied else "edge",
            marker_end=None if edge.implied else "url(#arrow)",
        )
        if not edge.label:
            return path
        a, b = self.point(chain[0], True), self.point(chain[1], False)
        middle = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
        x, y = middle if self.across else (middle[1], middle[0])
        half = len(edge.label) * 3.2 + 7
        return el(
            "g",
            path,
            el("rect", x=x - half, y=y - 9, width=2 * half, height=18, rx=9, class_="pill"),
            el("text", edge.label, x=x, y=y + 3.6, class_="branch", text_anchor="middle"),
        )

    def cards(self) -> list[Markup]:
        return [self.card(index, node) for index, node in enumerate(self.dag.nodes)]

    def card(self, item: int, node: Node) -> Markup:
        along, beside = self.point(item, False)
        x, y = (along, beside - CARD_HEIGHT / 2) if self.across else (beside - self.card_width / 2, along)
        width = self.card_width
        words = [node.name, node.type, *([status_word(node.status)] if node.status else []), node.note]
        status = node.status
        return el(
            "g",
            el("title", " · ".join(word for word in words if word)),
            self._outline(node, width),
            el(
                "g",
                el("circle", r=8, class_="sign"),
                el("path", d=_SIGNS.get(status or "", "M-2.4,0 h4.8" if status else "M0,0 h0.01"), class_="mark"),
                transform="translate(21,27)",
            ),
            el("text", cut(node.label, int((width - 46) / CHARACTER)), x=38, y=23, class_="name"),
            el("text", self._note(node), x=38, y=40, class_="note"),
            transform=f"translate({x:.1f},{y:.1f})",
            class_=f"step {status_class(status)}",
        )

    def _note(self, node: Node) -> str:
        length = int((self.card_width - 46) / NOTE_CHARACTER)
        # The sign says "succeeded" too; the room is better spent on what came out.
        full = node.subtitle
        return cut(node.note if node.note and node.status == "Succeeded" and len(full) > length else full, length)

    @staticmethod
    def _outline(node: Node, width: float) -> Markup:
        if node.type == "Condition":
            points = f"12,0 {width - 12:.1f},0 {width:.1f},27 {width - 12:.1f},54 12,54 0,27"
            return el("polygon", points=points, class_="box")
        return el("rect", width=width, height=CARD_HEIGHT, rx=9, class_="box")


def dag_page(dag: Dag, *, title: str) -> str:
    """A small HTML page that holds the picture alone."""
    head = join(
        [
            Markup('<meta charset="utf-8">'),
            Markup(
                '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
                "style-src 'unsafe-inline'\">"
            ),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            el("title", title),
            el("style", Markup(asset("palette.css") + asset("dag.css"))),
        ]
    )
    body = el("body", el("h1", title, class_="dag-title"), dag_svg(dag, title=title), class_="dag-page")
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>{body}</html>\n'
