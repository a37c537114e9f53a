"""The generators of random numbers of a rank: Python's, NumPy's, torch's, and its GPU's."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.tensors import generators
from drivetrain.training.seeds import seed_generators, step_base


def generator_states(device: torch.device) -> dict[str, Tensor]:
    """By name: `python` and `numpy` (int64), `torch` and, where `device` is a GPU, `cuda` (bytes)."""
    states = {name: torch.from_numpy(state) for name, state in generators.generator_states().items()}
    states["torch"] = torch.get_rng_state()
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_generators(states: Mapping[str, Tensor], device: torch.device) -> str:
    """Set every generator to what `generator_states` gave; what there is to say of it, mostly nothing.

    Raises:
        InputError: a state that cannot be set. (A training that went on with other numbers would be another one.)
    """
    said = ""
    if device.type == "cuda" and "cuda" not in states and "torch" in states:
        said = "random numbers of the GPU start anew: the checkpoint is of processes without one"
        device = torch.device("cpu")
    missing = [name for name in generator_states(device) if name not in states]
    if missing:
        raise InputError(f"the checkpoint has no state of the random numbers of {', '.join(missing)}.")
    try:
        generators.restore_generators(states)
        torch.set_rng_state(states["torch"])
        if device.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"], device)
    except (ValueError, TypeError, RuntimeError, OverflowError, IndexError) as problem:
        raise InputError(f"the checkpoint's state of the random numbers cannot be set: {problem}") from problem
    return said


@contextmanager
def kept_generators(device: torch.device) -> Generator[None]:
    """Restore every generator at the end, whatever was drawn inside."""
    states = generator_states(device)
    try:
        yield
    finally:
        restore_generators(states, device)


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
