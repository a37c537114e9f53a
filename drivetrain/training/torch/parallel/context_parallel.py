"""Context parallelism: ranks share the samples and split the sequence; only attention looks across its parts.

Each rank has the queries of its own positions and fetches everyone's keys and values (A. Dubey et al., "The Llama 3
Herd of Models", 2024, section 3.3.2). torch's own context_parallel replaces the CUDA kernels of attention only.

What a recipe promises by having `context_plan()`: its model takes and gives tensors of shape [samples, positions, ...],
and works on each position alone, but in torch.nn.functional.scaled_dot_product_attention (positions in the last
dimension but one, with no mask other than is_causal). The plan names, by pattern, the buffers that have an entry for
each position, with the dimension of the positions: {"*.attention.cosines": 0}. They must not be saved
(persistent=False).

A recipe that also has `loss_parts()` gives its losses part by part: no rank has all outputs in training. Its sequences
are cut into twice as many chunks as there are ranks, and rank r of n has chunks r and 2n-1-r: causal attention is then
the same work for all, where neighbouring positions would leave the last rank with n times that of the first (W. Brandon
et al., "Striped Attention", 2023, on the imbalance; the layout is that of the Llama 3 paper). Where 2n does not divide
the length, and for other recipes, each rank has neighbouring positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name
from drivetrain.training.recipe import HasContextPlan, HasLossParts, Recipe
from drivetrain.training.torch.layers import layers_of
from drivetrain.training.torch.parallel.tensor_parallel import split_dropouts

# They attend inside, where it cannot be seen.
HIDDEN_ATTENTION = (functional.multi_head_attention_forward,)


@dataclass(frozen=True)
class _Positions:
    """A buffer with an entry for each position; a module sees its part."""

    module: nn.Module
    name: str
    whole: Tensor
    dimension: int


class Context:
    """One rank's part of every sequence.

    Args:
        model: changed in place, so that its layers work on this rank's positions.
        recipe: has `context_plan()`.
        group: the ranks that share the samples.
        owner: for messages.

    Raises:
        InputError: no plan, or one that does not fit the model.
    """

    def __init__(self, model: nn.Module, recipe: Recipe, group: dist.ProcessGroup, owner: str) -> None:
        self.group, self.owner = group, owner
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if not isinstance(recipe, HasContextPlan):
            raise InputError(
                f"{owner}: the recipe has no method context_plan() -> dict. Give it one if its model works on each "
                "position alone but in torch's scaled_dot_product_attention; it names the buffers with an entry for "
                'each position, such as {"*.positions": 0}.'
            )
        self.positions = _take_buffers(model, recipe.context_plan(), owner)
        self.is_balanced = isinstance(recipe, HasLossParts)
        attention = GatheredAttention(self)
        for module in {model, *(layer for _, layer in layers_of(model))}:
            # In each layer, too: the backward pass may compute it again, by itself.
            module.forward = partial(_inside, attention, module.forward)
        split_dropouts(model, self.size, 1, lambda mask: self._own(mask, 1, mask.shape[1]))

    def part(self, inputs: Tensor) -> Tensor:
        """This rank's positions of inputs [samples, positions, ...]; its layers are told which.

        Raises:
            InputError: positions that the ranks cannot share evenly.
        """
        if inputs.dim() < 2 or inputs.shape[1] % self.size:
            raise InputError(
                f"{self.owner}: inputs of shape {list(inputs.shape)}; {self.size} ranks cannot share the positions "
                "(the second size) evenly. Choose a length that they divide."
            )
        for each in self.positions:
            if inputs.shape[1] > each.whole.shape[each.dimension]:
                raise InputError(
                    f"{self.owner}: sequences of {inputs.shape[1]} positions, but buffer {each.name!r} has entries for "
                    f"{each.whole.shape[each.dimension]}."
                )
            setattr(each.module, each.name, self._own(each.whole, each.dimension, inputs.shape[1]))
        return self._own(inputs, 1, inputs.shape[1]).contiguous()

    def part_of_targets(self, targets: Tensor, outputs: Tensor, length: int) -> Tensor:
        """This rank's positions of targets [samples, positions, ...].

        Args:
            outputs: what the model gave for this rank's positions.
            length: positions of the whole sequences.

        Raises:
            InputError: no output or no target for each position.
        """
        self._refuse_sums(outputs, length)
        if targets.dim() < 2 or targets.shape[1] != length:
            raise InputError(
                f"{self.owner}: targets of shape {list(targets.shape)} for {length} positions; loss_parts() is given "
                "those of some, so the second size has to be theirs. Without loss_parts() they are taken whole."
            )
        return self._own(targets, 1, length).contiguous()

    def chunks(self, length: int) -> list[tuple[int, int]]:
        """Start and stop of what this rank has of `length` positions."""
        if self.is_balanced and length % (2 * self.size) == 0:
            each = length // (2 * self.size)
            return [(place * each, (place + 1) * each) for place in (self.rank, 2 * self.size - 1 - self.rank)]
        each = length // self.size
        return [(self.rank * each, (self.rank + 1) * each)]

    def in_order(self, parts: list[Tensor], dimension: int) -> Tensor:
        """All ranks' positions, put together in order."""
        length = sum(part.shape[dimension] for part in parts)
        if len(self.chunks(length)) == 1:
            return torch.cat(parts, dim=dimension)
        heads, tails = zip(*(part.chunk(2, dim=dimension) for part in parts), strict=True)
        return torch.cat([*heads, *reversed(tails)], dim=dimension)

    def by_rank(self, whole: Tensor, dimension: int) -> list[Tensor]:
        """The inverse of `in_order`: each rank's positions."""
        if len(self.chunks(whole.shape[dimension])) == 1:
            return [part.contiguous() for part in whole.chunk(self.size, dim=dimension)]
        chunks = whole.chunk(2 * self.size, dim=dimension)
        return [torch.cat((chunks[r], chunks[-1 - r]), dim=dimension) for r in range(self.size)]

    def _own(self, whole: Tensor, dimension: int, length: int) -> Tensor:
        parts = [whole.narrow(dimension, start, stop - start) for start, stop in self.chunks(length)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=dimension)

    def whole(self, outputs: Tensor, length: int) -> Tensor:
        """All positions' outputs, on every rank; the backward pass goes on with this rank's.

        Raises:
            InputError: the model gives no output for each position.
        """
        self._refuse_sums(outputs, length)
        return _Joined.apply(outputs, self)

    def _refuse_sums(self, outputs: Tensor, length: int) -> None:
        if outputs.dim() < 2 or outputs.shape[1] != length // self.size:
            raise InputError(
                f"{self.owner}: the model gives {list(outputs.shape)} for {length // self.size} positions; the second "
                "size has to be theirs. A model that sums up the sequence cannot be split along it; use strategy 'ddp'."
            )


class GatheredAttention(TorchFunctionMode):
    """While active, attention is between this rank's queries and everyone's keys and values."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self.is_gathered = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in HIDDEN_ATTENTION:
            raise InputError(
                f"{self.context.owner}: the model attends by torch.nn.MultiheadAttention, which cannot be split along "
                "the sequence. Let it use torch.nn.functional.scaled_dot_product_attention."
            )
        if func is not functional.scaled_dot_product_attention or self.is_gathered:
            return func(*args, **kwargs)
        self.is_gathered = True  # an outer layer's mode is the same one, and sees the call below
        try:
            return self._attend(*args, **kwargs)
        finally:
            self.is_gathered = False

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **others: Any,
    ) -> Tensor:
        context = self.context
        if attn_mask is not None or dropout_p:
            raise InputError(
                f"{context.owner}: attention with {'a mask' if attn_mask is not None else 'dropout'}; allowed is "
                "is_causal or none, without dropout inside of it."
            )
        key, value = (_Gathered.apply(each, context) for each in (key, value))
        if not is_causal:
            return functional.scaled_dot_product_attention(query, key, value, **others)
        chunks = context.chunks(key.shape[-2])
        found: list[Tensor] = []
        for own, (start, stop) in zip(query.chunk(len(chunks), dim=-2), chunks, strict=True):
            # Nothing after a chunk's last position matters.
            mask = torch.arange(start, stop, device=query.device)[:, None] >= torch.arange(stop, device=query.device)
            found.append(
                functional.scaled_dot_product_attention(
                    own, key[..., :stop, :], value[..., :stop, :], attn_mask=mask, **others
                )
            )
        return found[0] if len(found) == 1 else torch.cat(found, dim=-2)


class _Joined(torch.autograd.Function):
    """Every rank computes the same from the whole, so that each one's gradient of its own part is complete."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, context: Context) -> Tensor:
        ctx.context = context
        return context.in_order(_gathered(x, context), 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.context.by_rank(gradients[0], 1)[ctx.context.rank], None


class _Gathered(torch.autograd.Function):
    """All ranks' positions (dimension -2), in order; each rank uses them otherwise, so that gradients are summed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, context: Context) -> Tensor:
        ctx.context = context
        return context.in_order(_gathered(x, context), -2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        parts = ctx.context.by_rank(gradients[0], -2)
        summed = torch.empty_like(parts[0])
        dist.reduce_scatter(summed, parts, group=ctx.context.group)
        return summed, None


def _gathered(x: Tensor, context: Context) -> list[Tensor]:
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(context.size)]
    dist.all_gather(parts, x.contiguous(), group=context.group)
    return parts


def _inside(mode: TorchFunctionMode, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with mode:
        return forward(*args, **kwargs)


def _take_buffers(model: nn.Module, plan: dict[str, int], owner: str) -> list[_Positions]:
    """Make the plan's buffers attributes of their modules, which no longer belong to its state."""
    buffers = dict(model.named_buffers())
    saved = model.state_dict().keys()
    taken: list[_Positions] = []
    for pattern, dimension in plan.items():
        fitting = [name for name in buffers if fnmatchcase(name, pattern)]
        if not fitting:
            raise unknown_name("buffer of context_plan()", pattern, buffers)
        for name in fitting:
            if name in saved:
                raise InputError(
                    f"{owner}: buffer {name!r} of context_plan() is saved with the model, which a rank's part must not "
                    "be. Register it with persistent=False."
                )
            path, _, own_name = name.rpartition(".")
            module = model.get_submodule(path)
            taken.append(_Positions(module, own_name, buffers[name], dimension))
            delattr(module, own_name)
            setattr(module, own_name, buffers[name])
    return taken
