"""The state of every generator of random numbers that a rank has: Python's, NumPy's, torch's, and its GPU's.

As tensors of fixed size in the rank's own file: what is saved with the weights is of the same step as they are.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from drivetrain.base.errors import InputError

# Of the Mersenne Twister, which Python and NumPy share.
WORDS = 624


def generator_states(device: torch.device) -> dict[str, Tensor]:
    """By name: `python` and `numpy` (int64), `torch` and, where `device` is a GPU, `cuda` (bytes)."""
    version, internal, gauss = random.getstate()
    kind, words, position, has_gauss, cached = np.random.get_state(legacy=True)
    assert kind == "MT19937"
    states = {
        "python": torch.tensor([version, gauss is not None, _bits(gauss or 0.0), *internal], dtype=torch.int64),
        "numpy": torch.tensor([position, has_gauss, _bits(float(cached)), *map(int, words)], dtype=torch.int64),
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_generators(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Set every generator to what `generator_states` gave.

    Raises:
        InputError: a state that cannot be set. (A training that went on with other numbers would be another one.)
    """
    missing = [name for name in generator_states(device) if name not in states]
    if missing:
        raise InputError(f"the checkpoint has no state of the random numbers of {', '.join(missing)}.")
    try:
        version, has_gauss, gauss, *internal = states["python"].tolist()
        random.setstate((version, tuple(internal), _number(gauss) if has_gauss else None))
        position, has_cached, cached, *words = states["numpy"].tolist()
        np.random.set_state(("MT19937", np.array(words, dtype=np.uint32), position, has_cached, _number(cached)))
        torch.set_rng_state(states["torch"])
        if device.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"], device)
    except (ValueError, TypeError, RuntimeError, OverflowError, IndexError) as problem:
        raise InputError(f"the checkpoint's state of the random numbers cannot be set: {problem}") from problem


@contextmanager
def kept_generators(device: torch.device) -> Generator[None]:
    """What is drawn inside does not count: afterwards every generator is as it was."""
    states = generator_states(device)
    try:
        yield
    finally:
        restore_generators(states, device)


def _bits(number: float) -> int:
    return struct.unpack("<q", struct.pack("<d", number))[0]


def _number(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<q", bits))[0]
