"""Where a chain is cut into stages, and what is known of the tensors that travel between them."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training.torch.layers import chain_of
from drivetrain.training.torch.parallel.stage_split import Shadow, StageModule, balanced, layer_costs, split_chain
from drivetrain.training.torch.precision import PRECISIONS


def names(pieces: list[list[tuple[str, nn.Module]]]) -> list[list[str]]:
    return [[name for name, _ in piece] for piece in pieces]


def chain(*layers: nn.Module) -> list[tuple[str, nn.Module]]:
    return chain_of(nn.Sequential(*layers), "pp")


@given(
    st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.booleans()), min_size=1, max_size=8),
    st.integers(1, 4),
)
def test_no_cut_is_better_than_the_balanced_one(layers: list[tuple[int, bool, bool]], stages: int) -> None:
    costs, trained, may_start = (list(column) for column in zip(*layers, strict=True))
    may_start[0] = True

    def dearest(starts: tuple[int, ...]) -> float:
        pieces = [slice(a, b) for a, b in zip(starts, (*starts[1:], len(costs)), strict=True)]
        possible = all(any(trained[piece]) for piece in pieces) and all(may_start[start] for start in starts)
        return max(sum(costs[piece]) for piece in pieces) if possible else float("inf")

    ways = [dearest((0, *rest)) for rest in combinations(range(1, len(costs)), stages - 1)]
    best = min(ways, default=float("inf"))
    found = balanced(costs, trained, may_start, stages)
    assert (found is None) == (best == float("inf"))
    if found is not None:
        assert len(found) == stages and dearest(tuple(found)) == best


def test_costs_are_halves_of_memory_and_time() -> None:
    """An embedding has parameters and no products; two equal matrices share the time."""
    layers = chain(nn.Embedding(8, 4), nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    assert layer_costs(layers, None) == [0.5, 0.25, 0.25]
    assert layer_costs(layers, torch.zeros(2, 3, dtype=torch.int64)) == [0.25, 0.375, 0.375]


def test_a_layer_that_comes_twice_comes_twice() -> None:
    activation = nn.ReLU()
    layers = chain(nn.Linear(2, 2), activation, nn.Linear(2, 2), activation)
    assert names(split_chain(layers, 2, [], None, "pp")) == [["0"], ["1", "2", "3"]]


def test_cuts_by_hand() -> None:
    layers = chain(*(nn.Linear(2, 2) for _ in range(4)))
    assert names(split_chain(layers, 3, ["1", "3"], None, "pp")) == [["0"], ["1", "2"], ["3"]]


@pytest.mark.parametrize(
    ("stages", "split", "words"),
    [
        (2, ["9"], "layer of split"),
        (3, ["1"], "names 1 layers, each the first of a further stage; 3 stages need 2"),
        (3, ["3", "1"], "allowed are different layers in the model's order"),
        (2, ["0"], "allowed are different layers in the model's order"),
        (2, ["4"], r"stage 1 \(4\) would have no parameters to train"),
        (4, [], "4 stages, but only 3 of the model's 5 layers have parameters to train"),
    ],
)
def test_cuts_that_cannot_be(stages: int, split: list[str], words: str) -> None:
    layers = chain(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU())
    with pytest.raises(InputError, match=words):
        split_chain(layers, stages, split, None, "strategy 'pp'")


def test_a_parameter_of_two_stages_is_refused() -> None:
    first, last = nn.Linear(2, 2), nn.Linear(2, 2)
    last.weight = first.weight
    with pytest.raises(InputError, match=r"'0\.weight' and '1\.weight' are one and the same parameter"):
        split_chain(chain(first, last), 2, [], None, "strategy 'pp'")


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


def shadow(*stages: nn.Module, precision: str = "fp32") -> Shadow:
    modules = [StageModule([(str(i), stage)], "cpu", PRECISIONS[precision]) for i, stage in enumerate(stages)]
    return Shadow(modules, "strategy 'pp'")


def test_shapes_are_known_before_anything_travels() -> None:
    stages = (nn.Embedding(5, 4), nn.Linear(4, 6), nn.Linear(6, 2))
    found = shadow(*stages, precision="bf16").boundaries(torch.zeros(1, 3, dtype=torch.int64), 7, training=True)
    assert [b.shape for b in found] == [(7, 3), (7, 3, 4), (7, 3, 6), (7, 3, 2)]
    assert [b.dtype for b in found] == [torch.int64, torch.float32, torch.bfloat16, torch.bfloat16]
    assert [b.requires_grad for b in found] == [False, True, True, True]
    assert found[1].empty().is_meta
    assert not any(b.requires_grad for b in shadow(*stages).boundaries(torch.zeros(1, 3).long(), 7, training=False))


def test_untransferable_values_are_refused() -> None:
    with pytest.raises(InputError, match="stage 0 hands on a tuple; allowed is one tensor"):
        shadow(Pair(), nn.Linear(2, 2)).boundaries(torch.zeros(1, 2), 2, training=True)
    with pytest.raises(InputError, match="what stage 0 gives has no gradient"):
        shadow(nn.Linear(2, 2).requires_grad_(False), nn.Linear(2, 2)).boundaries(torch.zeros(1, 2), 2, training=True)
