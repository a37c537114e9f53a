from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest

from drivetrain.telling import dag as layout_module
from drivetrain.telling.dag import arrange, layers_of, place


def crossings_of(edges: list[tuple[int, int]]) -> int:
    return sum((a - c) * (b - d) < 0 for n, (a, b) in enumerate(edges) for c, d in edges[n + 1 :])


def test_layers_are_longest_paths() -> None:
    names = ["prepare", "train", "evaluate", "register"]
    edges = [("prepare", "train"), ("prepare", "evaluate"), ("train", "evaluate"), ("evaluate", "register")]
    assert layers_of(names, edges) == {"prepare": 0, "train": 1, "evaluate": 2, "register": 3}


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        layers_of(["a", "b"], [("a", "b"), ("b", "a")])


def test_edges_over_several_layers_bend_once_a_layer() -> None:
    arranged = arrange(["a", "b", "c", "d"], [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")])
    chain = arranged.chains["a", "d"]
    assert [arranged.layer[item] for item in chain] == [0, 1, 2, 3]
    assert [arranged.is_bend(item) for item in chain] == [False, True, True, False]


def test_ordering_removes_a_crossing() -> None:
    # Written in this order, a -> d and b -> c cross; either layer turned around, they do not.
    arranged = arrange(["a", "b", "c", "d"], [("a", "d"), ("b", "c")])
    top, bottom = ({item: at for at, item in enumerate(row)} for row in arranged.layers)
    assert crossings_of([(top[0], bottom[3]), (top[1], bottom[2])]) == 0


def test_boxes_never_overlap_and_keep_their_order() -> None:
    chance = random.Random(3)
    names = [f"step-{n}" for n in range(60)]
    edges = sorted(
        {(names[chance.randrange(max(0, n - 15), n)], names[n]) for n in range(1, 60) for _ in range(3)},
    )
    arranged = arrange(names, edges)
    sizes = [float(chance.randrange(40, 200)) for _ in names]
    at = place(arranged, sizes, bend_size=6.0, gap=10.0)

    def half(item: int) -> float:
        return (6.0 if arranged.is_bend(item) else sizes[item]) / 2

    for row in arranged.layers:
        for left, right in pairwise(row):
            assert at[right] - at[left] >= half(left) + half(right) + 10.0 - 1e-6
    assert min(at[item] - half(item) for item in at) == pytest.approx(0.0)


def test_a_chain_is_straight_beside_a_light_edge() -> None:
    names = ["a", "b", "c"]
    edges = [("a", "b"), ("b", "c"), ("a", "c")]
    arranged = arrange(names, edges, {("a", "c"): 0.001})
    at = place(arranged, [50.0, 50.0, 50.0], bend_size=4.0, gap=10.0)
    assert max(at[n] for n in range(3)) - min(at[n] for n in range(3)) < 1.0


def test_many_long_edges_are_drawn_straight_instead_of_bent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_module, "MAX_BENDS", 3)
    names = [f"s{n}" for n in range(6)]
    arranged = arrange(names, [(a, b) for n, a in enumerate(names) for b in names[n + 1 :]])
    assert all(len(chain) == 2 for chain in arranged.chains.values())


@pytest.mark.slow
def test_thousands_of_steps_are_laid_out_in_bounded_time() -> None:
    chance = random.Random(1)
    names = [f"s{n}" for n in range(3000)]
    edges = sorted({(names[chance.randrange(n)], names[n]) for n in range(1, 3000) for _ in range(3)})
    began = time.process_time()
    arranged = arrange(names, edges)
    place(arranged, [100.0] * len(names), 6.0, 10.0)
    # Some 0.3 s here; what must not happen is growth with the square.
    assert time.process_time() - began < 10
    assert len(arranged.layer) == sum(map(len, arranged.layers)) >= 3000


def test_an_empty_graph_has_no_layers() -> None:
    arranged = arrange([], [])
    assert arranged.layers == () and place(arranged, [], 1.0, 1.0) == {}
