"""The state that an optimizer keeps of each parameter, by the parameter's name: out for a checkpoint, and in again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from drivetrain.base.errors import InputError
from drivetrain.training.torch.parallel.flat_slice import FlatSlice
from drivetrain.training.torch.parallel.sharded import whole

Entries = dict[str, dict[str, Any]]
"""Parameter -> entry -> a tensor, or this rank's slice of one."""


class OptimizerState:
    """The state of a torch.optim.Optimizer that steps on the parameters themselves.

    Args:
        optimizer: whose state it is.
        parameters: this rank's, by the names of the recipe's model.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]) -> None:
        self.optimizer, self.parameters = optimizer, parameters
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in parameters.items()}

    def entries(self) -> Entries:
        """The very tensors that the optimizer works on.

        Raises:
            InputError: it keeps something that is no tensor, or is of no parameter.
        """
        found: Entries = {}
        for parameter, entries in self.optimizer.state.items():
            if parameter not in self._names:
                raise InputError(
                    f"the optimizer keeps {parameter!r:.80} in its state, which is no parameter of the model; it could "
                    "not be restored. Keep it in param_groups, or in the state of each parameter as a tensor."
                )
            found[self._names[parameter]] = checked_entries(self._names[parameter], entries)
        return found

    def groups(self) -> list[dict[str, Any]]:
        """The options of each group of parameters, plain JSON, with the names of its parameters in `params`."""
        return [{**group, "params": [self._names[p] for p in group["params"]]} for group in self.optimizer.param_groups]

    def empty(self, parameter: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor | FlatSlice:
        """Room for an entry: sliced as its parameter is, where it is of the parameter's shape."""
        like = self.parameters[parameter]
        if tuple(like.shape) == shape:
            return torch.empty_like(like.detach(), dtype=dtype)
        # On the host, as optimizers keep their counters; what they want on the device they move there.
        return torch.empty(shape, dtype=dtype)

    def adopt(self, entries: Entries, saved: Mapping[str, Mapping[str, Any]]) -> None:
        """Go on with `entries`, and for each parameter with the options of the group that it was in (`saved`)."""
        numbered: dict[int, dict[str, Any]] = {}
        groups: list[dict[str, Any]] = []
        number = 0
        for group in self.optimizer.param_groups:
            first = number
            for number, parameter in enumerate(group["params"], start=first):
                if self._names[parameter] in entries:
                    numbered[number] = entries[self._names[parameter]]
            number = first + len(group["params"])
            # By the name of a parameter: another strategy's stages have other groups.
            options = saved.get(self._names[group["params"][0]], {}) if group["params"] else {}
            groups.append({**group, **options, "params": list(range(first, number))})
        self.optimizer.load_state_dict({"state": numbered, "param_groups": groups})


def checked_entries(parameter: str, entries: Mapping[str, Any]) -> dict[str, Tensor]:
    """Those that are tensors.

    Raises:
        InputError: one is neither a tensor nor None, which SGD without momentum keeps.
    """
    found: dict[str, Tensor] = {}
    for entry, value in entries.items():
        if value is None:
            continue
        if not isinstance(value, Tensor):
            raise InputError(
                f"the optimizer keeps {entry!r} of {parameter!r}, which is no tensor; it could not be restored."
            )
        sums = isinstance(value, DTensor) and any(placement.is_partial() for placement in value.placements)
        found[entry] = whole(value) if sums else value
    return found
