"""A model seen as layers: what is cut, sharded, recomputed and compiled piece by piece.

A *chain* is an nn.Sequential: the output of each child is the input of the next. Of any other model the layers are its
children, those of containers one by one; a child that has a list of blocks (an nn.ModuleList) is a container, too.
Names of parameters stay as they are, whatever is done here.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, noop_context_fn

from drivetrain.base.errors import InputError


def layers_of(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers by their names in `model`, in order; layers without parameters are among them."""
    found: list[tuple[str, nn.Module]] = []
    for name, child in model.named_children():
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)) or type(child) is nn.Sequential or _has_blocks(child):
            found += [(f"{name}.{inner}", layer) for inner, layer in layers_of(child)]
        else:
            found.append((name, child))
    return found


def _has_blocks(module: nn.Module) -> bool:
    """Return True if it has a list of blocks, like the backbone of a language model."""
    return any(isinstance(inner, nn.ModuleList) and len(inner) > 1 for inner in module.modules())


def chain_of(model: nn.Module, strategy: str) -> list[tuple[str, nn.Module]]:
    """The children of a chain, by name.

    Raises:
        InputError: the model is no chain.
    """
    if not isinstance(model, nn.Sequential):
        raise InputError(
            f"strategy {strategy!r} cuts a model between its layers, and must know their order: the recipe's model() "
            f"has to return an nn.Sequential, not {type(model).__name__}."
        )
    # (named_children would leave out a module that comes a second time.)
    return [(name, layer) for name, layer in model._modules.items() if layer is not None]


def refuse_sparse_gradients(model: nn.Module, who: str) -> None:
    """
    Raises:
        InputError: a layer whose gradients `who` does not add up over ranks.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse:
            raise InputError(
                f"layer {name!r} has sparse gradients, which {who} does not add up. Make it with sparse=False, or take "
                "another strategy, such as ddp."
            )


def refuse_single_numbers(model: nn.Module, who: str) -> None:
    """
    Raises:
        InputError: a parameter without a dimension, which `who` does not cut.
    """
    for name, parameter in model.named_parameters():
        if not parameter.ndim:
            raise InputError(
                f"parameter {name!r} is a single number without a dimension, which {who} does not cut. Give it the "
                "shape [1], or take another strategy, such as ddp."
            )


def recompute_activations(model: nn.Module) -> None:
    """Keep only the inputs of each layer with parameters; the backward pass computes the rest again.

    T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016. The state of the random generators is kept,
    so that dropout is the same both times, and running statistics count each batch once.
    """
    for _, layer in layers_of(model):
        if any(True for _ in layer.parameters()):
            again = partial(_first_time_and_again, layer) if any(True for _ in layer.buffers()) else noop_context_fn
            layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, context_fn=again)


def _first_time_and_again(layer: nn.Module) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Contexts of the first computation and of the one in the backward pass."""
    return nullcontext(), _on_copies_of_buffers(layer)


@contextmanager
def _on_copies_of_buffers(layer: nn.Module) -> Generator[None]:
    kept = [(module, dict(module._buffers)) for module in layer.modules() if module._buffers]
    for module, buffers in kept:
        module._buffers.update({name: None if b is None else b.clone() for name, b in buffers.items()})
    try:
        yield
    finally:
        for module, buffers in kept:
            module._buffers.update(buffers)


def compile_layers(model: nn.Module) -> None:
    """Compile each layer with parameters: equal layers are compiled once, and hooks between layers stay as they are.

    It is the layer's `forward` that is compiled: Module.compile() silently leaves torch's own layers as they are.
    """
    from torch._dynamo import config  # takes a second

    layers = [layer for _, layer in layers_of(model) if any(True for _ in layer.parameters())]
    # Beyond the limit layers are silently not compiled: leave room for each to train and to be evaluated.
    config.recompile_limit = max(config.recompile_limit, 4 * len(layers))
    for layer in layers:
        layer.forward = torch.compile(layer.forward)
