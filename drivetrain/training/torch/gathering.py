"""A model's tensors, whole, under the names that the recipe's model gives: for a model that is handed on.

Slices are put together on rank 0, parts of other pipeline stages are fetched. (Checkpoints never are whole: see
drivetrain.training.checkpointing.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from drivetrain.training.torch.parallel.sharded import local, whole
from drivetrain.training.torch.strategy import Strategy

# How other tools' wrappers prefix the names of a state dict.
WRAPPER_PREFIXES = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "model.")


def gather_model(strategy: Strategy) -> dict[str, Tensor]:
    """Parameters and buffers, with the moving average in the parameters' place where there is one: copies on the CPU
    of rank 0 alone (others: none). Every rank must call this."""
    with strategy.in_evaluation():
        return gather_parts(strategy, strategy.model_state())


def gather_parts(strategy: Strategy, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """As `gather_model`, of a model's `parts` as they were kept (drivetrain.training.torch.checkpoints.state)."""
    found = strategy.whole_model(parts)
    return gather(strategy, parts) if found is None else found


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


def gather(strategy: Strategy, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of whole tensors on rank 0's CPU, those of the other pipeline stages among them; {} on other ranks. Every
    rank must call this with its part of the same ones.

    (A host with eight GPUs has no room for eight copies.)
    """
    # Rank 0's pipeline: the first rank of each stage.
    speaks = not any(index for name, index in strategy.layout.coordinates.items() if name != "stage")
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        gathered = whole(tensor)  # all that hold a slice of it take part
        if speaks:
            found[name] = _copied(gathered, tensor)
    if strategy.layout.degrees.get("stage", 1) == 1:
        return found if strategy.process.is_main else {}
    listing = {name: [list(t.shape), str(t.dtype).removeprefix("torch.")] for name, t in found.items()}
    listings = strategy.process.group.gather_json(listing)
    if not speaks:
        return {}
    assert strategy.layout.mesh is not None
    group = strategy.layout.mesh["stage"].get_group()
    merged: dict[str, Tensor] = {}
    for rank in dist.get_process_group_ranks(group):
        for name, (shape, dtype) in listings[rank].items():
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
