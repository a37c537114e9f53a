"""torch's random numbers as a function of where a training is."""

from __future__ import annotations

import torch

from drivetrain.training.seeds import seed_generators, step_base


def seed_everything(*key: int) -> None:
    """Seed the generators of Python, NumPy and torch (all devices) from `key`."""
    torch.manual_seed(seed_generators(*key))


class StepSeeds:
    """Seeds of torch's generators, on the CPU and on `device`, as a function of the key and the step.

    What a model draws (dropout) then depends on the step alone, wherever a training was interrupted. Cheap enough for
    every step: torch's generators make unlike sequences of neighbouring seeds.
    """

    def __init__(self, device: torch.device, *key: int) -> None:
        self._base = step_base(*key)
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            self._generators.append(torch.cuda.default_generators[device.index])

    def start(self, step: int) -> None:
        for generator in self._generators:
            generator.manual_seed(self._base + step)
