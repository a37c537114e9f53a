from __future__ import annotations

import random

import pytest

from drivetrain.telling.dag import Dag, Edge, Node
from drivetrain.telling.dag.text_picture import MAX_NODES, draw

RETRAINING = """\
             ╭────────────────────╮
             │ ↺ prepare          │
             │ cached             │
             ╰─────────┬──────────╯
                       ▼
             ╭────────────────────╮
             │ ✓ train            │
             │ succeeded · 22.3 s │
             ╰─────────┬──────────╯
                       ▼
             ╭────────────────────╮
             │ ✗ gate             │
             │ failed             │
             ╰─────────┬──────────╯
          ╭────────────┴────────────╮
          ▼ yes                     ▼ no
╭────────────────────╮    ╭────────────────────╮
│ – register-model   │    │ – stop             │
│ not run            │    │ not run            │
╰────────────────────╯    ╰────────────────────╯"""

MERGING = """\
╭────────────╮    ╭────────────╮
│ left       │    │ right      │
│ Processing │    │ Processing │
╰─────┬──────╯    ╰─────┬──────╯
      ╰──────╮ ╭────────╯
             ▼ ▼
         ╭────────────╮
         │ both       │
         │ Processing │
         ╰────────────╯"""


def retraining() -> Dag:
    nodes = [
        Node("prepare", "Processing", status="Cached"),
        Node("train", "Training", status="Succeeded", note="22.3 s"),
        Node("gate", "Condition", status="Failed"),
        Node("register-model", "RegisterModel", status="NotExecuted"),
        Node("stop", "Fail", status="NotExecuted"),
    ]
    edges = [
        Edge("prepare", "train"),
        Edge("train", "gate"),
        Edge("prepare", "gate"),
        Edge("gate", "register-model", label="yes"),
        Edge("gate", "stop", label="no"),
    ]
    return Dag.build(nodes, edges)


def test_a_small_pipeline_is_drawn_as_text() -> None:
    assert draw(retraining(), width=80) == RETRAINING


def test_two_lines_into_one_box() -> None:
    nodes = [Node(name, "Processing") for name in ("left", "right", "both")]
    assert draw(Dag.build(nodes, [Edge("left", "both"), Edge("right", "both")]), width=80) == MERGING


def test_too_wide_or_too_many_is_not_drawn() -> None:
    assert draw(retraining(), width=30) is None
    many = Dag.build([Node(f"s{n}", "Processing") for n in range(MAX_NODES + 1)], [])
    assert draw(many, width=100_000) is None


def test_styles_change_only_colours() -> None:
    used: set[str] = set()

    def paint(text: str, style: str) -> str:
        used.add(style)
        return text

    assert draw(retraining(), width=80, paint=paint) == RETRAINING
    assert used == {"Cached", "Succeeded", "Failed", "NotExecuted", "name", "note", "line"}


def test_wide_characters_and_terminal_commands_in_a_display_name() -> None:
    drawn = draw(Dag((Node("a", "Processing", "数据 \x1b[31mred\r"), Node("b", "Processing")), ()), width=80)
    assert drawn is not None
    assert "\x1b" not in drawn and "\r" not in drawn
    box = drawn.splitlines()
    assert "│ 数据 �[31mred�" in box[1]
    # A wide character takes two columns, so the line that holds two of them has two characters fewer.
    assert len(box[1]) == len(box[2]) - 2


@pytest.mark.parametrize("seed", range(25))
def test_every_line_between_boxes_ends_in_one(seed: int) -> None:
    """Of any DAG: as many arrows as boxes are entered by, and no two lines run into each other side by side."""
    chance = random.Random(seed)
    names = [f"s{n}" for n in range(chance.randrange(2, 12))]
    edges = {(names[chance.randrange(n)], names[n]) for n in range(1, len(names)) for _ in range(2)}
    dag = Dag.build([Node(name, "Processing") for name in names], [Edge(a, b) for a, b in sorted(edges)])
    drawn = draw(dag, width=10_000)
    assert drawn is not None
    assert drawn.count("▼") == sum(not edge.implied for edge in dag.edges)
    assert drawn.count("╭") >= len(names)
    grid = dict(enumerate(drawn.splitlines()))
    for row, line in grid.items():
        for column, sign in enumerate(line):
            if sign == "▼":
                assert grid[row - 1][column] in "│╮╭┬┼├┤", (row, column)
                assert grid[row + 1][column] == "─", (row, column)
