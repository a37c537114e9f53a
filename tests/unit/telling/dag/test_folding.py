"""Steps that are alike become one in a wide graph; what people look for, and what differs, stays."""

from __future__ import annotations

from dataclasses import replace

from drivetrain.telling.dag import Dag, Edge, Node
from drivetrain.telling.dag.folding import MAX_SIDE_BY_SIDE, folded

WIDE = MAX_SIDE_BY_SIDE + 4


def sweep(size: int = WIDE) -> tuple[list[Node], list[Edge]]:
    """prepare -> train-N -> score-N -> pick."""
    nodes = [Node("prepare", "Processing", status="Succeeded"), Node("pick", "Processing", status="Succeeded")]
    edges: list[Edge] = []
    for place in range(size):
        nodes += [Node(f"train-{place}", "Training", status="Succeeded"), Node(f"score-{place}", "Processing")]
        edges += [Edge("prepare", f"train-{place}"), Edge(f"train-{place}", f"score-{place}"),
                  Edge(f"score-{place}", "pick")]  # fmt: skip
    return nodes, edges


def arrows(dag: Dag) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in dag.edges}


def test_alike_chains_are_one_chain() -> None:
    found = folded(Dag.build(*sweep()))
    assert {node.name: (node.label, node.note) for node in found.nodes} == {
        "prepare": ("prepare", ""),
        "pick": ("pick", ""),
        "train-0": (f"{WIDE} steps", f"train-0 … train-{WIDE - 1}"),
        "score-0": (f"{WIDE} steps", f"score-0 … score-{WIDE - 1}"),
    }
    assert arrows(found) == {("prepare", "train-0"), ("train-0", "score-0"), ("score-0", "pick")}


def test_a_narrow_graph_is_not_folded() -> None:
    dag = Dag.build(*sweep(MAX_SIDE_BY_SIDE))
    assert folded(dag) is dag


def test_failed_or_differently_connected_steps_are_not_folded() -> None:
    nodes, edges = sweep()
    nodes = [replace(node, status="Failed") if node.name == "train-2" else node for node in nodes]
    edges += [Edge("train-5", "extra"), Edge("extra", "pick")]
    found = folded(Dag.build([*nodes, Node("extra", "Processing", status="Succeeded")], edges))
    assert {"train-0", "train-2", "train-5", "score-0", "score-2", "score-5", "extra"} <= {n.name for n in found.nodes}
    assert {node.name: node.label for node in found.nodes}["train-0"] == f"{WIDE - 2} steps"
    assert ("train-5", "extra") in arrows(found) and ("train-0", "extra") not in arrows(found)


def test_many_failed_steps_all_stay_visible() -> None:
    nodes, edges = sweep()
    failed = [replace(node, status="Failed") if node.type == "Training" else node for node in nodes]
    found = folded(Dag.build(failed, edges))
    assert sum(node.type == "Training" for node in found.nodes) == WIDE
    # What follows them is one box, with an arrow from each.
    assert sum(target == "score-0" for _, target in arrows(found)) == WIDE
