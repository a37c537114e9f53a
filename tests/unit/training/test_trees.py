"""Trees of tensors: their leaves, and other trees of the same form."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from drivetrain.training import trees


class Pair(NamedTuple):
    first: object
    second: object


class Outputs(OrderedDict[str, object]):
    """As a library's outputs: a dict whose keys are attributes, too."""

    def __setitem__(self, key: str, value: object) -> None:
        super().__setitem__(key, value)
        setattr(self, key, value)


def numbers(rows: int, first: int = 0) -> np.ndarray:
    return np.arange(first, first + 2 * rows).reshape(rows, 2)


TREE = {"ids": numbers(4), "more": (numbers(4, 10), [numbers(4, 20)]), "pair": Pair(numbers(4, 30), {"x": numbers(4)})}


def test_every_leaf_comes_once_and_in_order() -> None:
    assert [int(leaf[0, 0]) for leaf in trees.leaves(TREE)] == [0, 10, 20, 30, 0]
    assert trees.leaves(TREE["ids"]) == [TREE["ids"]]


def test_a_mapped_tree_has_the_same_form() -> None:
    found = trees.mapped(lambda leaf: int(leaf.sum()), TREE)
    assert found == {"ids": 28, "more": (108, [188]), "pair": Pair(268, {"x": 28})}
    assert isinstance(found["pair"], Pair)
    given = Outputs()
    given["logits"] = 3
    doubled = trees.mapped(lambda leaf: leaf * 2, given)
    assert isinstance(doubled, Outputs) and doubled.logits == doubled["logits"] == 6  # type: ignore[attr-defined]
    assert given["logits"] == 3


def test_parts_of_a_tree_are_parts_of_each_leaf() -> None:
    first, second = trees.split(TREE, [1, 3], lambda leaf, sizes: np.split(leaf, np.cumsum(sizes)[:-1]))
    assert trees.num_samples(first) == 1 and trees.num_samples(second) == 3
    np.testing.assert_array_equal(second["more"][1][0], numbers(4, 20)[1:])


def test_samples_are_counted_where_all_leaves_agree() -> None:
    assert trees.num_samples(TREE) == trees.num_samples(numbers(4)) == 4
    assert trees.num_samples({"a": numbers(4), "b": numbers(3)}) is None
    assert trees.num_samples({"a": np.float64(1)}) is None
    assert trees.num_samples({}) is None


def test_shapes_are_told_by_name() -> None:
    assert trees.described({"ids": numbers(4), "more": (numbers(2), "x")}) == "ids [4, 2], more.0 [2, 2], more.1 str"
