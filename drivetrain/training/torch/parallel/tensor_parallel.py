"""Tensor parallelism: large matrices are split over ranks that work on the same samples.

M. Shoeybi et al., "Megatron-LM", 2019 (by columns, then by rows); V. Korthikanti et al., "Reducing Activation
Recomputation in Large Transformer Models", 2022 (what lies between is split along the sequence).

What becomes of each layer says a plan (drivetrain.training.torch.parallel.tensor_plan).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.modules.dropout import _DropoutNd

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.torch.parallel.tensor_plan import Plan
from drivetrain.training.trees import Tree


def parallelize(model: nn.Module, plan: Plan, mesh: DeviceMesh, *, sequence: bool = False) -> nn.Module:
    """Split the layers of `model` that the plan names, in place; parameters of theirs become DTensors.

    Args:
        model: all of it, or some of its layers under their names.
        plan: of `plan_for`.
        mesh: the ranks that share the work.
        sequence: whether layers between the split ones are split along the sequence.
    """
    for name, module in list(model.named_modules()):
        style = plan.get(name)
        if isinstance(module, _DropoutNd):
            dimension = -1 if style == "colwise" else 1 if sequence else None
            if dimension is not None:
                split_dropouts(module, mesh.size(), dimension, partial(_chunk, mesh, dimension))
        elif style and (made := _style(module, style, sequence)):
            # Every rank has the same values already: nothing has to travel.
            parallelize_module(module, mesh, made, src_data_rank=None)
    return model


def split_dropouts(model: nn.Module, size: int, dimension: int, part: Callable[[Tensor], Tensor]) -> None:
    """Have the dropouts of `model` work on one of `size` parts in a dimension, as one process would on the whole.

    Args:
        part: gives this rank's part of a whole mask.
    """
    for module in model.modules():
        if isinstance(module, _DropoutNd) and module.p:
            module.forward = partial(_split_dropout, module, size, dimension, part)


def refuse_uneven_length(inputs: Tree, size: int, owner: str) -> None:
    """Raises InputError: several inputs, or positions that `size` ranks cannot share evenly, with sequence=True."""
    if not isinstance(inputs, Tensor):
        raise InputError(
            f"{owner}: sequence=True splits one sequence, and the recipe's inputs are several tensors "
            f"({trees.described(inputs):.200}). Leave sequence off."
        )
    if inputs.dim() < 2 or inputs.shape[1] % size:
        raise InputError(
            f"{owner}: sequence=True with inputs of shape {list(inputs.shape)}; {size} ranks cannot share the "
            "positions (the second size) evenly. Choose a length that they divide."
        )


def refuse_part(outputs: Tensor, inputs: Tensor, owner: str) -> None:
    """Raises InputError: outputs that are still split along the sequence."""
    if outputs.dim() < 2 or outputs.shape[1] != inputs.shape[1]:
        raise InputError(
            f"{owner}: sequence=True, and the model gives {list(outputs.shape)} for inputs of {list(inputs.shape)}: "
            "its last layer has to put the positions together (style 'colwise_gather'), or leave sequence off."
        )


def step_by_kind(optimizer: torch.optim.Optimizer) -> None:
    """Have an optimizer take DTensors of one mesh and others one kind after the other: torch's kernels for many
    parameters at once (foreach, fused) refuse to mix them. What is saved of its groups stays as the recipe made them.
    """
    groups: list[dict[str, Any]] = []

    def part(*_: Any) -> None:
        groups[:] = optimizer.param_groups
        optimizer.param_groups = [
            {**group, "params": list(parameters)}
            for group in groups
            for _, parameters in groupby(sorted(group["params"], key=_kind), key=_kind)
        ]

    def unite(*_: Any) -> None:
        optimizer.param_groups = groups[:]

    optimizer.register_step_pre_hook(part)
    optimizer.register_step_post_hook(unite)


def _kind(parameter: nn.Parameter) -> int:
    """How many dimensions the mesh of a parameter has; parameters of the same number are on the same mesh."""
    return parameter.device_mesh.ndim if isinstance(parameter, DTensor) else 0


def _style(module: nn.Module, style: str, sequence: bool) -> ParallelStyle | None:
    between = Shard(1) if sequence else Replicate()
    if style == "colwise":
        return ColwiseParallel(input_layouts=between)
    if style == "colwise_gather":
        return ColwiseParallel(input_layouts=between, output_layouts=Replicate())
    if style == "rowwise":
        inputs = Replicate() if isinstance(module, nn.Embedding) else Shard(-1)
        return RowwiseParallel(input_layouts=inputs, output_layouts=between)
    if style == "sequence" and sequence:
        return SequenceParallel(use_local_output=True)
    return None


def _chunk(mesh: DeviceMesh, dimension: int, whole: Tensor) -> Tensor:
    return whole.chunk(mesh.size(), dim=dimension)[mesh.get_local_rank()]


def _split_dropout(
    module: _DropoutNd, size: int, dimension: int, part: Callable[[Tensor], Tensor], x: Tensor
) -> Tensor:
    """Dropout of one part of a tensor, with that part of the whole one's mask: every rank draws the whole mask, so
    that the ranks' generators stay in step and the masks are those of one process."""
    if not module.training:
        return x
    shape = list(x.shape)
    shape[dimension] *= size
    kept = 1.0 - module.p
    mask = torch.empty(shape, dtype=x.dtype, device=x.device).bernoulli_(kept).div_(kept)
    return x * part(mask)
