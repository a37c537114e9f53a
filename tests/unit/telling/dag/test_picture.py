from __future__ import annotations

import re
import time
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from drivetrain.base.formatting import SIGNS
from drivetrain.telling.dag import Dag, Edge, Node
from drivetrain.telling.dag.picture import MAX_NODES, PAGE_WIDTH, dag_page, dag_svg

SVG = "{http://www.w3.org/2000/svg}"


def chain(length: int) -> Dag:
    names = [f"step-{n}" for n in range(length)]
    return Dag.build([Node(name, "Processing") for name in names], [Edge(a, b) for a, b in pairwise(names)])


def test_every_step_is_a_card_with_name_status_and_sign() -> None:
    dag = Dag.build([Node(f"s-{status}", "Processing", status=status, note="3 s") for status in SIGNS], [])
    root = ElementTree.fromstring(dag_svg(dag, title="all"))
    cards = [group for group in root.iter(f"{SVG}g") if "step" in group.attrib.get("class", "").split()]
    assert len(cards) == len(SIGNS)
    marks = {card.find(f".//{SVG}path").attrib["d"] for card in cards}  # type: ignore[union-attr]
    # Retrying and cached share the arrow that goes round; the words beside it differ.
    assert len(marks) == len(SIGNS) - 1
    words = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert "s-Failed" in words and "failed · 3 s" in words and "not run · 3 s" in words


def test_a_standalone_picture_brings_its_style() -> None:
    alone = dag_svg(chain(2), title="x", standalone=True)
    assert "prefers-color-scheme: dark" in alone and "<style>" in alone
    assert "<style>" not in dag_svg(chain(2), title="x")
    assert dag_page(chain(2), title="a < b").count("a &lt; b") >= 2


def test_short_pipelines_go_across_and_long_ones_down() -> None:
    def extent(dag: Dag) -> tuple[int, int]:
        root = ElementTree.fromstring(dag_svg(dag, title="x"))
        return int(root.attrib["width"]), int(root.attrib["height"])

    width, height = extent(chain(5))
    assert width > 4 * height and width <= PAGE_WIDTH + 20
    width, height = extent(chain(20))
    assert height > 4 * width


def test_branches_are_labelled_and_implied_edges_are_light() -> None:
    dag = Dag.build(
        [Node("a", "Processing"), Node("gate", "Condition"), Node("b", "Processing")],
        [Edge("a", "gate"), Edge("gate", "b", label="yes"), Edge("a", "b", carries="model")],
    )
    drawn = dag_svg(dag, title="x")
    assert ">yes</text>" in drawn
    assert re.search(r"<path[^>]*class=\"edge implied\"[^>]*><title>a → b: model</title>", drawn)
    assert "<polygon" in drawn  # a condition has a shape of its own


def test_long_names_are_cut_with_a_full_title() -> None:
    name = "a-very-long-step-name-that-goes-on-and-on-and-on-and-on-to-64-chr"
    drawn = dag_svg(Dag.build([Node(name, "Processing")], []), title="x")
    assert f"<title>{name} · Processing</title>" in drawn
    assert f">{name}</text>" not in drawn and "…" in drawn


@pytest.mark.slow
def test_thousands_of_steps_in_bounded_time_and_size() -> None:
    names = [f"s{n}" for n in range(700)]
    everything = Dag.build(
        [Node(name, "Processing") for name in names],
        [Edge(a, b) for n, a in enumerate(names) for b in names[n + 1 :]],
    )
    began = time.process_time()
    drawn = dag_svg(everything, title="each reads from all before")
    assert time.process_time() - began < 10
    assert len(drawn) < 2_000_000
    with pytest.raises(ValueError, match="too many"):
        dag_svg(Dag.build([Node(f"s{n}", "Processing") for n in range(MAX_NODES + 1)], []), title="x")


def test_no_steps() -> None:
    ElementTree.fromstring(dag_svg(Dag((), ()), title="nothing"))
