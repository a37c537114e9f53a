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

from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.tensors.index import AVERAGE, BEST, ENTRY, MODEL, OPTIMIZER, Index
from drivetrain.training.torch.optimizer_state import Entries
from drivetrain.training.torch.optimizers import refuse_lost_state
from drivetrain.training.torch.parallel.sharded import empty_like
from drivetrain.training.torch.strategy import Strategy

# What `targets` makes new.
MADE = (OPTIMIZER, BEST)


def tensors_of(strategy: Strategy, best: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """This rank's part of everything, the very tensors that training works on.

    Args:
        strategy: the training's.
        best: its parts of the best model so far, by name; see `model_parts`.

    Raises:
        InputError: the optimizer keeps something that is no tensor.
    """
    average = strategy.average.values if strategy.average else {}
    return {
        **_prefixed(MODEL, strategy.model_state()),
        **_prefixed(OPTIMIZER, _optimizer(strategy)),
        **_prefixed(AVERAGE, average),
        **_prefixed(BEST, best or {}),
    }


def model_parts(strategy: Strategy) -> dict[str, Any]:
    """A copy of this rank's part of the model as it is evaluated: with the moving average where there is one. Every
    rank must call it."""
    with strategy.in_evaluation():
        return {name: tensor.detach().clone() for name, tensor in strategy.model_state().items()}


def values_of(strategy: Strategy) -> dict[str, Any]:
    """The values that are no tensors, as plain JSON: the optimizer's groups with the names of their parameters (those
    of this rank's stage), and the scale of the loss.

    Raises:
        InputError: the optimizer has more than is kept of it.
    """
    refuse_lost_state(strategy.optimizer)
    scale = {"loss_scale": strategy.loss_scale.state()} if strategy.loss_scale else {}
    return {"groups": strategy.optimizer_state.groups()} | scale


def targets(strategy: Strategy, index: Index) -> dict[str, Any]:
    """The tensors to load a checkpoint into, by name: the model's own tensors; the average's, where there was one; and
    new ones, sliced as the strategy's are, for the optimizer's state and the best model, as far as the index has them.

    Raises:
        InputError: the checkpoint is of another model: a tensor is missing, or of another shape.
    """
    model = strategy.model_state()
    found = _prefixed(MODEL, model)
    if strategy.average and any(name.startswith(AVERAGE) for name in index.tensors):
        found |= _prefixed(AVERAGE, strategy.average.values)
    if any(name.startswith(BEST) for name in index.tensors):
        found |= _prefixed(BEST, {name: empty_like(tensor) for name, tensor in model.items()})
    index.check_targets({name: tuple(tensor.shape) for name, tensor in found.items()})
    for name, entry in index.tensors.items():
        if name.startswith(OPTIMIZER):
            parameter = name.removeprefix(OPTIMIZER).rpartition(ENTRY)[0]
            if parameter in strategy.parameters:
                found[name] = strategy.optimizer_state.empty(parameter, entry.shape, getattr(torch, entry.dtype))
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


def adopt(strategy: Strategy, loaded: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Let the strategy go on with what was loaded into its `targets` and with its `values_of`; returns the best model's
    parts, empty where there were none. An average that there was none of begins with the parameters that there are."""
    entries: Entries = {}
    for name, tensor in loaded.items():
        if name.startswith(OPTIMIZER):
            parameter, _, entry = name.removeprefix(OPTIMIZER).rpartition(ENTRY)
            entries.setdefault(parameter, {})[entry] = tensor
    saved = {name: group for group in values["groups"] for name in group["params"]}
    strategy.optimizer_state.adopt(entries, saved)
    if strategy.average and not any(name.startswith(AVERAGE) for name in loaded):
        strategy.average.begin()
    if strategy.loss_scale and "loss_scale" in values:
        strategy.loss_scale.load_state(values["loss_scale"])
    return {name.removeprefix(BEST): tensor for name, tensor in loaded.items() if name.startswith(BEST)}


def speaks_for_stage(strategy: Strategy) -> bool:
    """Return True if this rank is the first of all that hold the same layers."""
    return strategy.process.rank % strategy.layout.stage_size == 0


def _optimizer(strategy: Strategy) -> dict[str, Any]:
    entries = strategy.optimizer_state.entries()
    return {f"{name}{ENTRY}{entry}": value for name, of_it in entries.items() for entry, value in of_it.items()}


def _prefixed(prefix: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {prefix + name: tensor for name, tensor in tensors.items()}
