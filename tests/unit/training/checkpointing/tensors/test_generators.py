from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.torch.generators import generator_states, kept_generators, restore_generators

CPU = torch.device("cpu")


def draw() -> list[float]:
    numbers = [random.random(), random.gauss(0, 1), float(np.random.rand()), float(np.random.randn())]
    return [*numbers, float(torch.rand(())), float(torch.randn(()))]


def test_every_generator_resumes() -> None:
    draw()  # a second normal number is waiting in Python's and in NumPy's
    states = {name: state.clone() for name, state in generator_states(CPU).items()}
    drawn = draw()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    restore_generators(states, CPU)
    assert draw() == drawn


def test_states_are_of_one_size_always() -> None:
    random.seed(1)
    sizes = {name: (state.shape, state.dtype) for name, state in generator_states(CPU).items()}
    draw()
    assert {name: (state.shape, state.dtype) for name, state in generator_states(CPU).items()} == sizes


def test_draws_inside_the_context_do_not_count() -> None:
    states = generator_states(CPU)
    with kept_generators(CPU):
        draw()
    after = generator_states(CPU)
    assert all(torch.equal(after[name], state) for name, state in states.items())


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("python", None),
        ("python", torch.zeros(3, dtype=torch.int64)),
        ("python", torch.full((628,), 255)),
        ("numpy", None),
        ("numpy", torch.zeros(3, dtype=torch.int64)),
        ("numpy", torch.full((627,), -1)),
        ("torch", None),
        ("torch", torch.zeros(3, dtype=torch.uint8)),
    ],
)
def test_a_state_that_cannot_be_set_is_an_error(name: str, state: torch.Tensor | None) -> None:
    """(A peer went on with other numbers, without a word.)"""
    states = generator_states(CPU)
    del states[name]
    if state is not None:
        states[name] = state
    with kept_generators(CPU), pytest.raises(InputError, match="random numbers"):
        restore_generators(states, CPU)
