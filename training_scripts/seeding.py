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


def seed_torch(device: torch.device, *key: int) -> None:
    """Seed torch's generator of `device`, and that of the CPU, from `key`: cheap enough for each step.

    What a model draws (dropout) then depends on the step alone, wherever a training was interrupted.
    """
    seed = _hashed(*key)
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


def _hashed(*key: int) -> int:
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big")
