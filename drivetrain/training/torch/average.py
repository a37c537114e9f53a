"""An exponential moving average of the parameters, often better than the last ones.

B. Polyak and A. Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from drivetrain.training.torch.parallel.sharded import local


class MovingAverage:
    """A moving average of the parameters as they lie on this rank: slices are averaged as slices."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], decay: float) -> None:
        self.decay = decay
        self.parameters = parameters
        self.values: dict[str, Tensor] = {name: p.detach().clone() for name, p in parameters.items()}

    @torch.no_grad()
    def begin(self) -> None:
        """Begin with the parameters as they are now."""
        torch._foreach_copy_(
            [local(value) for value in self.values.values()],
            [local(parameter) for parameter in self.parameters.values()],
        )

    @torch.no_grad()
    def update(self) -> None:
        """After a step: average = decay * average + (1 - decay) * parameter."""
        torch._foreach_lerp_(
            [local(value) for value in self.values.values()],
            [local(parameter) for parameter in self.parameters.values()],
            1.0 - self.decay,
        )

    @contextmanager
    def in_place(self) -> Generator[None]:
        """The model computes with the averages inside, and with its own parameters again afterwards."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, parameter in self.parameters.items():
            value, held = local(self.values[name]), local(parameter)
            kept = value.clone()
            value.copy_(held)
            held.copy_(kept)
