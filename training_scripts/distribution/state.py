"""The state of a training's model and optimizer, whole, under the names that the recipe's model gives.

What one strategy saves another can load: slices are put together on rank 0, parts of other pipeline stages are fetched.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from drivetrain.training_scripts.distribution.sharded import fill, local, whole
from drivetrain.training_scripts.errors import InputError, unknown_name
from drivetrain.training_scripts.strategy import Strategy

# How other tools' wrappers prefix the names of a state dict.
WRAPPER_PREFIXES = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "model.")
# Between the name of a parameter and that of an entry of the optimizer's state; names of parameters have dots.
ENTRY = "//"


@dataclass(frozen=True)
class State:
    """`model`: parameters and buffers by name. `optimizer`: tensors by `<parameter>//<entry>`. `average`: the moving
    average by parameter, empty without one. `values`: everything else, as plain JSON."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor] = field(default_factory=dict)
    average: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


def gather(strategy: Strategy) -> State:
    """The whole state, its tensors on the CPU of rank 0 alone (others: none). Every rank must call this.

    The tensors are copies: training may go on.
    """
    average = strategy.average.values if strategy.average else {}
    scale = {"loss_scale": strategy.loss_scale.state()} if strategy.loss_scale else {}
    return State(
        _gathered(strategy, _model_state(strategy)),
        _gathered(strategy, _optimizer_state(strategy)),
        _gathered(strategy, average),
        {"groups": _groups(strategy)} | scale,
    )


def gather_model(strategy: Strategy) -> dict[str, Tensor]:
    """Parameters and buffers alone, with the moving average in the parameters' place where there is one; on rank 0, as
    `gather`."""
    with strategy.in_evaluation():
        return _gathered(strategy, _model_state(strategy))


def scatter(state: State, strategy: Strategy) -> None:
    """Put a whole state, which every rank has, into the strategy's model, optimizer and moving average."""
    load_model(strategy, state.model)
    _load_optimizer(strategy, state)
    if strategy.average:
        for name, value in strategy.average.values.items():
            fill(value, state.average[name])
    if strategy.loss_scale:
        strategy.loss_scale.load_state(state.values["loss_scale"])


def load_model(strategy: Strategy, tensors: Mapping[str, Tensor]) -> None:
    """Put whole parameters and buffers into this rank's part of the model.

    Raises:
        InputError: a tensor that is missing, or of another shape.
    """
    for name, held in _model_state(strategy).items():
        if name not in tensors:
            raise unknown_name("tensor", name, tensors, advice="The saved model is another one.")
        if tensors[name].shape != held.shape:
            raise InputError(
                f"tensor {name!r} is of shape {list(tensors[name].shape)}, the model's of shape {list(held.shape)}."
            )
        fill(held, tensors[name])


def unwrapped(tensors: Mapping[str, Tensor], wanted: Iterable[str]) -> tuple[dict[str, Tensor], str]:
    """Tensors under the names of a bare model, and the wrapper's prefix that was taken off ("" for none).

    Wrappers put a prefix before each name: `module.0.weight` is DistributedDataParallel's `0.weight`.
    """
    wanted = set(wanted)
    found, removed = dict(tensors), ""
    while not wanted & found.keys():
        prefix = next((p for p in WRAPPER_PREFIXES if found and all(name.startswith(p) for name in found)), None)
        if prefix is None:
            return dict(tensors), ""
        found, removed = {name.removeprefix(prefix): tensor for name, tensor in found.items()}, removed + prefix
    return found, removed


def _model_state(strategy: Strategy) -> dict[str, Tensor]:
    return dict(strategy.model.state_dict(keep_vars=True))


def _names(strategy: Strategy) -> dict[Tensor, str]:
    return {parameter: name for name, parameter in strategy.parameters.items()}


def _optimizer_state(strategy: Strategy) -> dict[str, Tensor]:
    names = _names(strategy)
    tensors = {
        f"{names[parameter]}{ENTRY}{entry}": value
        for parameter, entries in strategy.optimizer.state.items()
        for entry, value in entries.items()
        if value is not None  # SGD without momentum keeps a name for it
    }
    wrong = next((name for name, value in tensors.items() if not isinstance(value, Tensor)), None)
    if wrong:
        raise InputError(f"the optimizer keeps {wrong!r}, which is no tensor; it could not be restored.")
    return tensors


def _groups(strategy: Strategy) -> list[dict[str, Any]]:
    """The optimizer's groups: their values, and the names of their parameters as `params`; those of all stages."""
    names = _names(strategy)
    own = [{**group, "params": [names[p] for p in group["params"]]} for group in strategy.optimizer.param_groups]
    found: list[dict[str, Any]] = []
    for listed in _from_all_stages(strategy, json.dumps(own).encode()):
        found += json.loads(listed)
    return found


def _load_optimizer(strategy: Strategy, state: State) -> None:
    optimizer, names = strategy.optimizer, _names(strategy)
    by_parameter: dict[str, dict[str, Tensor]] = {}
    for name, tensor in state.optimizer.items():
        parameter, _, entry = name.rpartition(ENTRY)
        by_parameter.setdefault(parameter, {})[entry] = tensor
    saved_groups = {name: group for group in state.values["groups"] for name in group["params"]}
    entries: dict[int, dict[str, Tensor]] = {}
    groups: list[dict[str, Any]] = []
    number = 0
    for group in optimizer.param_groups:
        first = number
        for number, parameter in enumerate(group["params"], start=first):
            found = by_parameter.get(names[parameter])
            if found:
                entries[number] = {entry: _like(parameter, value) for entry, value in found.items()}
        number = first + len(group["params"])
        # By the name of a parameter: another strategy's stages have other groups.
        saved = saved_groups.get(names[group["params"][0]], {}) if group["params"] else {}
        groups.append({**group, **saved, "params": list(range(first, number))})
    optimizer.load_state_dict({"state": entries, "param_groups": groups})


def _like(parameter: nn.Parameter, value: Tensor) -> Tensor:
    """An entry of the optimizer: sliced as its parameter is, where it is of the parameter's shape."""
    if value.shape != parameter.shape or not isinstance(parameter, DTensor):
        return value.clone()
    made = torch.empty_like(parameter, dtype=value.dtype)
    fill(made, value)
    return made


def _gathered(strategy: Strategy, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of whole tensors on rank 0's CPU, those of the other pipeline stages among them; {} on other ranks.

    (A host with eight GPUs has no room for eight copies.)
    """
    # Rank 0's pipeline: the first rank of each stage.
    speaks = not any(index for name, index in strategy.layout.coordinates.items() if name != "stage")
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        gathered = whole(tensor)  # all that hold a slice of it take part
        if speaks:
            found[name] = _copied(gathered, tensor)
    if strategy.layout.degrees.get("stage", 1) == 1 or not speaks:
        return found if strategy.process.is_main else {}
    listing = {name: [list(t.shape), str(t.dtype).removeprefix("torch.")] for name, t in found.items()}
    ranks, group = _stages(strategy)
    merged: dict[str, Tensor] = {}
    for rank, listed in zip(ranks, _from_all_stages(strategy, json.dumps(listing).encode()), strict=True):
        for name, (shape, dtype) in json.loads(listed).items():
            own = rank == strategy.process.rank
            tensor = found[name] if own else torch.empty(shape, dtype=getattr(torch, dtype))
            dist.broadcast(tensor, src=rank, group=group)
            if strategy.process.is_main:
                merged[name] = tensor
    return merged


@torch.no_grad()
def _copied(gathered: Tensor, tensor: Tensor) -> Tensor:
    copied = gathered.cpu()
    return copied.clone() if copied.data_ptr() == local(tensor).data_ptr() else copied


def _from_all_stages(strategy: Strategy, own: bytes) -> list[bytes]:
    """What each pipeline stage says, in their order."""
    if strategy.layout.degrees.get("stage", 1) == 1:
        return [own]
    ranks, group = _stages(strategy)
    return [
        strategy.process.broadcast_bytes(own if rank == strategy.process.rank else None, source=rank, group=group)
        for rank in ranks
    ]


def _stages(strategy: Strategy) -> tuple[list[int], dist.ProcessGroup]:
    """The ranks of this rank's pipeline, and their group."""
    assert strategy.layout.mesh is not None
    group = strategy.layout.mesh["stage"].get_group()
    return dist.get_process_group_ranks(group), group
