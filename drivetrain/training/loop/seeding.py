"""Randomness as a function of where the training is, so that there is no generator to save."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch


def seed_everything(*key: int) -> None:
    """Seed the generators of Python, NumPy and torch (all devices) from `key`."""
    seed = _hashed(*key)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


class StepSeeds:
    """Seeds of torch's generators, on the CPU and on `device`, as a function of the key and the step.

    What a model draws (dropout) then depends on the step alone, wherever a training was interrupted. Cheap enough for
    every step: torch's generators make unlike sequences of neighbouring seeds.
    """

    def __init__(self, device: torch.device, *key: int) -> None:
        self._base = _hashed(*key) >> 1  # with the step it stays within 64 bits
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            self._generators.append(torch.cuda.default_generators[device.index])

    def start(self, step: int) -> None:
        for generator in self._generators:
            generator.manual_seed(self._base + step)


def _hashed(*key: int) -> int:
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big")
