"""Trees of tensors: what a model takes, what it gives, and what that is compared with.

A tree is a tensor, or a dict, tuple, named tuple or list of trees; every leaf has the samples along its first
dimension. Nothing here depends on a leaf's framework: torch's, TensorFlow's or numpy's arrays.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Tree = Any
_NODES = (dict, tuple, list)


def leaves(tree: Tree) -> list[Any]:
    """The tensors of a tree, in the order of its keys and places."""
    return list(_leaves(tree))


def mapped(function: Callable[[Any], Any], tree: Tree) -> Tree:
    """The same tree with what `function` makes of each leaf."""
    if not isinstance(tree, _NODES):
        return function(tree)  # which most trees are
    return rebuilt(tree, map(function, _leaves(tree)))


def rebuilt(tree: Tree, with_leaves: Iterable[Any]) -> Tree:
    """A tree of the same form with the leaves `with_leaves`, in the order of `leaves`."""
    return _rebuilt(tree, iter(with_leaves))


def split(tree: Tree, sizes: list[int], cut: Callable[[Any, list[int]], Iterable[Any]]) -> list[Tree]:
    """The tree in parts of so many samples; `cut` does it to a leaf."""
    parts = [list(cut(leaf, sizes)) for leaf in _leaves(tree)]
    return [rebuilt(tree, (part[number] for part in parts)) for number in range(len(sizes))]


def num_samples(tree: Tree) -> int | None:
    """How many samples all leaves have; None if they differ, or there are no leaves."""
    if is_tensor(tree):
        return len(tree)
    shapes = [tuple(leaf.shape[:1]) for leaf in _leaves(tree)]
    return shapes[0][0] if shapes and shapes[0] and len(set(shapes)) == 1 else None


def described(tree: Tree) -> str:
    """Shapes by name, for messages: `input_ids [8, 16], attention_mask [8, 16]`."""
    return ", ".join(f"{name} {_shape(leaf)}".strip() for name, leaf in _named(tree, ""))


def is_tensor(tree: Tree) -> bool:
    """Return True if it is one leaf."""
    return not isinstance(tree, _NODES)


def _leaves(tree: Tree) -> Iterator[Any]:
    if isinstance(tree, dict):
        for value in tree.values():
            yield from _leaves(value)
    elif isinstance(tree, tuple | list):
        for value in tree:
            yield from _leaves(value)
    else:
        yield tree


def _rebuilt(tree: Tree, given: Iterator[Any]) -> Tree:
    if isinstance(tree, dict):
        made = {key: _rebuilt(value, given) for key, value in tree.items()}
        if type(tree) is dict:
            return made
        other = copy.copy(tree)  # one with attributes, as a library's outputs are
        for key, value in made.items():
            other[key] = value
        return other
    if isinstance(tree, tuple | list):
        parts = [_rebuilt(value, given) for value in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return next(given)


def _named(tree: Tree, name: str) -> Iterator[tuple[str, Any]]:
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, tuple | list) else None
    if inside is None:
        yield name, tree
        return
    for key, value in inside:
        yield from _named(value, f"{name}.{key}" if name else str(key))


def _shape(leaf: Any) -> str:
    shape = getattr(leaf, "shape", None)
    return type(leaf).__name__ if shape is None else str(list(shape))
