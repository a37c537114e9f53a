"""Parameters that are frozen, or freed, while a training goes on: a forward pass or a loss sets their `requires_grad`.

A strategy with whole parameters of the model's own needs nothing for it. What cuts them has two for each, and what
exchanges gradients has settled at the start which ones travel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from drivetrain.base.errors import InputError


class SharedFlags:
    """Carries `requires_grad` between the slice and the whole of each parameter of torch's `fully_shard`.

    A layer shows its slice, and in its forward pass the whole. torch copies the slice's flag whenever it puts a whole
    together, so that one which was set on the whole would last for this pass, and change nothing.
    """

    def __init__(self, sharded: Iterable[Any]) -> None:
        groups = [layer._get_fsdp_state()._fsdp_param_group for layer in sharded]
        self._pairs = [pair for group in groups if group is not None for pair in group.fsdp_params]
        self._known = [pair.sharded_param.requires_grad for pair in self._pairs]

    def carry(self) -> None:
        """After a forward pass and its losses: the one of the two that was set since says it for both."""
        for place, pair in enumerate(self._pairs):
            part, whole = pair.sharded_param, getattr(pair, "_unsharded_param", pair.sharded_param)
            if part.requires_grad is not whole.requires_grad:
                now = not self._known[place]
                part.requires_grad_(now)
                whole.requires_grad_(now)
            self._known[place] = part.requires_grad


def refuse_freed(parameters: Mapping[str, nn.Parameter], at_start: Iterable[str], strategy: str) -> None:
    """After a backward pass.

    Args:
        at_start: names of the parameters that were frozen when gradients were told to travel.

    Raises:
        InputError: one of them has a gradient, which is another one on each rank.
    """
    for name in at_start:
        if parameters[name].grad is not None:
            raise InputError(
                f"parameter {name!r} was frozen when the training started, and has a gradient now: strategy "
                f"{strategy!r} has settled at the start whose gradients the ranks exchange. Make it with "
                "requires_grad=True and freeze it in the first forward pass; or use strategy 'fsdp'."
            )


class SettledFlags:
    """Flags of the parameters that are trained, settled at the start."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], strategy: str) -> None:
        self._at_start = [(name, parameter, parameter.requires_grad) for name, parameter in parameters.items()]
        self._strategy = strategy

    def check(self) -> None:
        """
        Raises:
            InputError: a parameter was frozen or freed since.
        """
        for name, parameter, was_trained in self._at_start:
            if parameter.requires_grad is not was_trained:
                raise InputError(
                    f"parameter {name!r} was {'frozen' if was_trained else 'freed'} after the training had started: "
                    f"under strategy {self._strategy!r} DeepSpeed has settled at the start which ones it trains, and "
                    "would go on. Set requires_grad in the recipe's model(); or use strategy 'fsdp'."
                )
