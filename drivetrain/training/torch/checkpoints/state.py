"""A training's tensors under flat names, as they lie on this rank, and the way back into a strategy.

    model/<name>                      parameters and buffers
    optimizer/<parameter>//<entry>    the optimizer's state
    average/<parameter>               the moving average
    best/<name>                       the model of the best validation so far

Names are those of the recipe's model, whatever the strategy: what one saves another can load. A slice is a DTensor,
which knows what it is a slice of; nothing is gathered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.tensors.index import Index
from drivetrain.training.errors import unknown_name
from drivetrain.training.torch.parallel.sharded import whole
from drivetrain.training.torch.strategy import Strategy

MODEL, OPTIMIZER, AVERAGE, BEST = "model/", "optimizer/", "average/", "best/"
# What `targets` makes new.
MADE = (OPTIMIZER, BEST)
# Between the name of a parameter and that of an entry of the optimizer's state; names of parameters have dots.
ENTRY = "//"


def tensors_of(strategy: Strategy, best: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """This rank's part of everything, the very tensors that training works on.

    Args:
        strategy: the training's.
        best: its parts of the best model so far, by name; see `model_parts`.

    Raises:
        InputError: the optimizer keeps something that is no tensor.
    """
    average = strategy.average.values if strategy.average else {}
    return {
        **_prefixed(MODEL, _model(strategy)),
        **_prefixed(OPTIMIZER, _optimizer(strategy)),
        **_prefixed(AVERAGE, average),
        **_prefixed(BEST, best or {}),
    }


def model_parts(strategy: Strategy) -> dict[str, Tensor]:
    """A copy of this rank's part of the model as it is evaluated: with the moving average where there is one. Every
    rank must call it."""
    with strategy.in_evaluation():
        return {name: tensor.detach().clone() for name, tensor in _model(strategy).items()}


def values_of(strategy: Strategy) -> dict[str, Any]:
    """What is no tensor, as plain JSON: the optimizer's groups with the names of their parameters (those of this rank's
    stage), and the scale of the loss."""
    names = _names(strategy)
    groups = [{**group, "params": [names[p] for p in group["params"]]} for group in strategy.optimizer.param_groups]
    scale = {"loss_scale": strategy.loss_scale.state()} if strategy.loss_scale else {}
    return {"groups": groups} | scale


def targets(strategy: Strategy, index: Index) -> dict[str, Tensor]:
    """What a checkpoint is to be loaded into, by name: the model's own tensors; the average's, where there was one; and
    new ones, sliced as the strategy's are, for the optimizer's state and the best model, as far as the index has them.

    Raises:
        InputError: the checkpoint is of another model: a tensor is missing, or of another shape.
    """
    model = _model(strategy)
    found = _prefixed(MODEL, model)
    if strategy.average and any(name.startswith(AVERAGE) for name in index.tensors):
        found |= _prefixed(AVERAGE, strategy.average.values)
    if any(name.startswith(BEST) for name in index.tensors):
        found |= _prefixed(BEST, {name: torch.empty_like(tensor.detach()) for name, tensor in model.items()})
    for name, tensor in found.items():
        if name not in index.tensors:
            raise unknown_name("tensor", name, index.tensors, advice="The saved model is another one.")
        if index.tensors[name].shape != tuple(tensor.shape):
            raise InputError(
                f"tensor {name!r} is of shape {list(index.tensors[name].shape)}, the model's of shape "
                f"{list(tensor.shape)}."
            )
    for name, entry in index.tensors.items():
        if name.startswith(OPTIMIZER):
            parameter = strategy.parameters.get(name.removeprefix(OPTIMIZER).rpartition(ENTRY)[0])
            if parameter is not None:
                found[name] = _empty(parameter, entry.shape, getattr(torch, entry.dtype))
    return found


def check_values(strategy: Strategy, values: Mapping[str, Any]) -> None:
    """
    Raises:
        DamagedError: an option of the optimizer is text, or a list, that is a number with this strategy.
    """
    kinds = {name: value for group in strategy.optimizer.param_groups for name, value in group.items()}
    for group in values["groups"]:
        for name, value in group.items():
            now = kinds.get(name)
            if isinstance(now, int | float) and value is not None and not isinstance(value, int | float):
                raise DamagedError(f"the optimizer's {name} is {value!r:.40}, where a number is wanted")


def adopt(strategy: Strategy, loaded: Mapping[str, Tensor], values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Let the strategy go on with what was loaded into its `targets` and with its `values_of`; returns the best model's
    parts, empty where there were none. An average that there was none of begins with the parameters that there are."""
    optimizer, names = strategy.optimizer, _names(strategy)
    by_parameter: dict[str, dict[str, Tensor]] = {}
    for name, tensor in loaded.items():
        if name.startswith(OPTIMIZER):
            parameter, _, entry = name.removeprefix(OPTIMIZER).rpartition(ENTRY)
            by_parameter.setdefault(parameter, {})[entry] = tensor
    saved_groups = {name: group for group in values["groups"] for name in group["params"]}
    entries: dict[int, dict[str, Tensor]] = {}
    groups: list[dict[str, Any]] = []
    number = 0
    for group in optimizer.param_groups:
        first = number
        for number, parameter in enumerate(group["params"], start=first):
            if names[parameter] in by_parameter:
                entries[number] = by_parameter[names[parameter]]
        number = first + len(group["params"])
        # By the name of a parameter: another strategy's stages have other groups.
        saved = saved_groups.get(names[group["params"][0]], {}) if group["params"] else {}
        groups.append({**group, **saved, "params": list(range(first, number))})
    optimizer.load_state_dict({"state": entries, "param_groups": groups})
    if strategy.average and not any(name.startswith(AVERAGE) for name in loaded):
        strategy.average.begin()
    if strategy.loss_scale and "loss_scale" in values:
        strategy.loss_scale.load_state(values["loss_scale"])
    return {name.removeprefix(BEST): tensor for name, tensor in loaded.items() if name.startswith(BEST)}


def speaks_for_stage(strategy: Strategy) -> bool:
    """Whether this rank is the first of all that hold the same layers."""
    return strategy.process.rank % strategy.layout.stage_size == 0


def _model(strategy: Strategy) -> dict[str, Tensor]:
    named = strategy.model.state_dict(keep_vars=True)
    return {name: tensor for name, tensor in named.items() if strategy.is_kept(name)}


def _names(strategy: Strategy) -> dict[Tensor, str]:
    return {parameter: name for name, parameter in strategy.parameters.items()}


def _optimizer(strategy: Strategy) -> dict[str, Tensor]:
    names = _names(strategy)
    found: dict[str, Tensor] = {}
    for parameter, entries in strategy.optimizer.state.items():
        for entry, value in entries.items():
            name = f"{names[parameter]}{ENTRY}{entry}"
            if value is None:  # SGD without momentum keeps a name for it
                continue
            if not isinstance(value, Tensor):
                raise InputError(f"the optimizer keeps {name!r}, which is no tensor; it could not be restored.")
            sums = isinstance(value, DTensor) and any(placement.is_partial() for placement in value.placements)
            found[name] = whole(value) if sums else value
    return found


def _empty(parameter: nn.Parameter, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Room for an entry of the optimizer: sliced as its parameter is, where it is of the parameter's shape."""
    if tuple(parameter.shape) == shape:
        return torch.empty_like(parameter.detach(), dtype=dtype)
    # On the host, as optimizers keep their counters; what they want on the device they move there.
    return torch.empty(shape, dtype=dtype)


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}
