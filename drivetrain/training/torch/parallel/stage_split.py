"""Cut a chain of layers into pipeline stages, and describe what travels between them."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name
from drivetrain.training.torch.precision import Precision

Chain = list[tuple[str, nn.Module]]


class StageModule(nn.Sequential):
    """Neighbouring layers of a chain, under the names that they have there, computed in the precision's format."""

    def __init__(self, layers: Chain, device_type: str, precision: Precision) -> None:
        super().__init__(OrderedDict(layers))
        self.device_type, self.precision = device_type, precision

    def forward(self, input: Tensor) -> Tensor:
        if input.requires_grad:
            # Only contiguous tensors travel, and a backward pass that is split may leave another gradient.
            input = input.view_as(input)
            input.register_hook(Tensor.contiguous)
        mixed = self.precision.is_mixed
        with torch.autocast(self.device_type, self.precision.compute) if mixed else nullcontext():
            outputs = super().forward(input)
        if not isinstance(outputs, Tensor):
            return outputs  # (which Shadow refuses before anything runs)
        outputs = outputs.contiguous()
        # torch's stages detach what they have sent, to let go of what led to it; that cannot be done with views.
        return outputs.clone() if outputs.requires_grad and outputs._is_view() else outputs


@dataclass(frozen=True)
class Boundary:
    """A tensor that one stage gives to the next."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool

    def empty(self) -> Tensor:
        """A tensor like it, without memory."""
        made = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device="meta")
        return made.requires_grad_(self.requires_grad)


def balanced(
    costs: Sequence[float], trained: Sequence[bool], may_start: Sequence[bool], stages: int
) -> list[int] | None:
    """The start of each stage, so that the most expensive one costs least; None if there is no way.

    The linear partition problem, by dynamic programming over (layers, stages).

    Args:
        costs: of each layer.
        trained: whether a layer has something to train; every stage gets one that has.
        may_start: whether a stage may begin with a layer.
        stages: how many.
    """
    num_layers, infinite = len(costs), float("inf")
    before, trained_before = [0.0], [0]
    for cost, is_trained in zip(costs, trained, strict=True):
        before.append(before[-1] + cost)
        trained_before.append(trained_before[-1] + is_trained)
    # best[end]: the dearest stage when the first `end` layers are cut into so many stages; starts: of the last of them
    best = [0.0] + [infinite] * num_layers
    starts: list[list[int]] = []
    for _ in range(stages):
        following, start_of = [infinite] * (num_layers + 1), [0] * (num_layers + 1)
        for end in range(1, num_layers + 1):
            for start in range(end):
                if trained_before[end] == trained_before[start] or not may_start[start]:
                    continue
                dearest = max(best[start], before[end] - before[start])
                if dearest < following[end]:
                    following[end], start_of[end] = dearest, start
        best = following
        starts.append(start_of)
    if best[num_layers] == infinite:
        return None
    found, end = [], num_layers
    for start_of in reversed(starts):
        end = start_of[end]
        found.append(end)
    return found[::-1]


def split_chain(
    chain: Chain,
    stages: int,
    by_hand: Sequence[str],
    example: Tensor | None,
    owner: str,
    may_start: Sequence[bool] | None = None,
) -> list[Chain]:
    """The chain in `stages` pieces.

    Args:
        chain: layers by name.
        stages: how many pieces.
        by_hand: the layers that begin the second and later pieces; empty for balanced costs.
        example: inputs with any values, to count operations with; None without any.
        owner: whose cut it is, for messages.
        may_start: for each layer whether a stage may begin with it; None where all may.

    Raises:
        InputError: cuts that cannot be, or that would part what belongs together.
    """
    names = [name for name, _ in chain]
    trained = [any(p.requires_grad for p in layer.parameters()) for _, layer in chain]
    if sum(trained) < stages:
        raise InputError(
            f"{owner}: {stages} stages, but only {sum(trained)} of the model's {len(chain)} layers have parameters to "
            f"train ({', '.join(n for n, t in zip(names, trained, strict=True) if t)}). Use fewer stages, or let the "
            "recipe's nn.Sequential have more, smaller children."
        )
    may_start = may_start or [True] * len(chain)
    if by_hand:
        starts = _starts_by_hand(names, stages, by_hand, owner)
    else:
        starts = balanced(layer_costs(chain, example), trained, may_start, stages)
        if starts is None:
            raise InputError(
                f"{owner}: there is no way to cut the model into {stages} stages that each have parameters to train, "
                "without parting layers that share the work on their features. Use fewer stages."
            )
    parted = next((names[start] for start in starts if not may_start[start]), None)
    if parted:
        raise InputError(
            f"{owner}: no stage can begin with {parted!r}, whose inputs are split over the tensor ranks. Cut "
            "elsewhere, or leave split empty."
        )
    pieces = [chain[start:end] for start, end in pairwise([*starts, len(chain)])]
    for number, (start, end) in enumerate(pairwise([*starts, len(chain)])):
        if not any(trained[start:end]):
            raise InputError(
                f"{owner}: stage {number} ({', '.join(names[start:end])}) would have no parameters to train. "
                "Cut elsewhere, or leave split empty."
            )
    _refuse_shared_parameters(pieces, owner)
    return pieces


def layer_costs(chain: Chain, example: Tensor | None) -> list[float]:
    """The cost of each layer in a stage: the mean of its share of the operations (time) and of the parameters (memory).

    Without an example of the inputs the parameters alone.
    """
    parameters = [float(sum(p.numel() for p in layer.parameters())) for _, layer in chain]
    memory = [count / max(sum(parameters), 1.0) for count in parameters]
    if example is None:
        return memory
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    operations = []
    with torch.no_grad():
        x = mode.from_tensor(example)
        for layer in (_without_values(layer, mode) for _, layer in chain):
            with mode, FlopCounterMode(display=False) as counter:
                x = layer(x)
            operations.append(float(counter.get_total_flops()))
    total = max(sum(operations), 1.0)
    return [(m + count / total) / 2 for m, count in zip(memory, operations, strict=True)]


class Shadow:
    """All stages without their values, to know what travels between them before anything does."""

    def __init__(self, stages: Sequence[StageModule], owner: str) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.stages = [_without_values(stage, self.mode) for stage in stages]
        self.owner = owner

    def boundaries(self, inputs: Tensor, rows: int, *, training: bool) -> list[Boundary]:
        """The inputs of every stage and the outputs of the last one, for `rows` samples like `inputs`.

        Raises:
            InputError: layers that hand on more than one tensor, or one without a gradient.
        """
        found: list[Boundary] = []
        x = self.mode.from_tensor(torch.empty((rows, *inputs.shape[1:]), dtype=inputs.dtype, device=inputs.device))
        with torch.set_grad_enabled(training):
            for number, stage in enumerate([None, *self.stages]):
                if stage is not None:
                    with self.mode:
                        x = stage.train(training)(x)
                last = number == len(self.stages)
                if not isinstance(x, Tensor):
                    raise InputError(
                        f"{self.owner}: stage {number - 1} hands on a {type(x).__name__}; allowed is one tensor. "
                        "Cut elsewhere, or let the recipe's layers give one tensor each."
                    )
                if training and number and not last and not x.requires_grad:
                    raise InputError(
                        f"{self.owner}: what stage {number - 1} gives has no gradient: its layers are frozen, or it "
                        "gives whole numbers. Cut further back."
                    )
                found.append(Boundary(tuple(x.shape), tuple(x.stride()), x.dtype, training and x.requires_grad))
        return found


def _without_values(module: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """A copy in which every tensor has a shape and no memory."""
    tensors = (*module.parameters(), *module.buffers())
    return copy.deepcopy(module, {id(tensor): mode.from_tensor(tensor) for tensor in tensors})


def _starts_by_hand(names: list[str], stages: int, by_hand: Sequence[str], owner: str) -> list[int]:
    for name in by_hand:
        if name not in names:
            raise unknown_name("layer of split", name, names)
    starts = [0, *(names.index(name) for name in by_hand)]
    if len(starts) != stages:
        raise InputError(
            f"{owner}: split names {len(by_hand)} layers, each the first of a further stage; {stages} stages need "
            f"{stages - 1}."
        )
    if any(first >= second for first, second in pairwise(starts)):
        raise InputError(
            f"{owner}: split={list(by_hand)}; allowed are different layers in the model's order, without the first one "
            f"({', '.join(names)})."
        )
    return starts


def _refuse_shared_parameters(pieces: Sequence[Chain], owner: str) -> None:
    holders: dict[nn.Parameter, tuple[int, str]] = {}
    for number, piece in enumerate(pieces):
        for layer_name, layer in piece:
            for name, parameter in layer.named_parameters(prefix=layer_name):
                stage, first = holders.setdefault(parameter, (number, name))
                if stage != number:
                    raise InputError(
                        f"{owner}: {first!r} and {name!r} are one and the same parameter, but stages {stage} and "
                        f"{number} would each train a copy. Do not share it, or use a strategy without stages."
                    )
