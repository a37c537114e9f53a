"""Randomness as a function of where a training is, so that there is no generator to save."""

from __future__ import annotations

import hashlib
import random

import numpy as np


def seed_of(*key: int) -> int:
    """64 bits."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big")


def step_base(*key: int) -> int:
    """The base to which the number of a step is added: that stays within 64 bits."""
    return seed_of(*key) >> 1


def seed_generators(*key: int) -> int:
    """Seed the generators of Python and NumPy from `key`; returns the seed for those of the framework."""
    seed = seed_of(*key)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    return seed
