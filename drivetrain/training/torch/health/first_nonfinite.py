"""Find the origin of the first number that is not finite, while the weights are still those that made it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from drivetrain.training.recipe import Batch
from drivetrain.training.torch.buffers import kept_modules
from drivetrain.training.torch.generators import kept_generators
from drivetrain.training.torch.parallel.sharded import local


@torch.no_grad()
def first_nonfinite(strategy: Any, piece: Batch, *, again: bool) -> str:
    """In words, for a loss that is not finite.

    Args:
        piece: what the loss is of.
        again: compute the outputs again, layer by layer; not where ranks would have to do it together.
    """
    names = [name for name, parameter in strategy.parameters.items() if not _is_finite(local(parameter))]
    if names:
        which = "all weights" if len(names) == len(strategy.parameters) else f"weights up to {names[-1]}"
        return f"{which} were not finite after the step before"
    if not _is_finite(piece.inputs):
        return "the inputs of the batch are not finite"
    if not _is_finite(piece.targets):
        return "the targets of the batch are not finite"
    if not again:
        return ""
    found: list[str] = []

    def look(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, outputs: Any) -> None:
            tensors = outputs if isinstance(outputs, (tuple, list)) else [outputs]
            if not found and not all(_is_finite(one) for one in tensors if isinstance(one, Tensor)):
                found.append(name)

        return hook

    model: nn.Module = strategy.model
    leaves = [(name, module) for name, module in model.named_modules() if next(module.children(), None) is None]
    handles = [module.register_forward_hook(look(name)) for name, module in leaves]
    try:
        with kept_modules(model), kept_generators(strategy.process.device):  # dropout draws what it drew
            strategy.call(model, piece.inputs)
    finally:
        for handle in handles:
            handle.remove()
    if found:
        return f"the outputs of layer {found[0] or 'the model'} are the first that are not finite"
    return "the model's outputs are finite, and the recipe's losses of them are not"


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
