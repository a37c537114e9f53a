from __future__ import annotations

import pytest
import torch
from torch import nn

from drivetrain.training.torch import gathering as state
from tests.fixtures.single_strategy import build, step


def test_returned_state_does_not_change() -> None:
    """On a CPU nothing has to be moved, and the tensors could be the very ones that training goes on with."""
    strategy = build(ema_decay=0.9)
    step(strategy)
    for handed_out in (state.gather_model(strategy), state.gather(strategy, dict(strategy.model.named_parameters()))):
        before = {name: tensor.detach().clone() for name, tensor in handed_out.items()}
        step(strategy)
        assert handed_out
        for name, tensor in handed_out.items():
            assert torch.equal(tensor, before[name]), name


def test_the_output_model_is_the_average() -> None:
    torch.manual_seed(0)
    strategy = build(ema_decay=0.9)
    step(strategy)
    assert strategy.average
    average = {name: value.clone() for name, value in strategy.average.values.items()}
    assert average.keys() == dict(strategy.model.named_parameters()).keys()
    found = state.gather_model(strategy)
    assert all(torch.equal(found[name], value) for name, value in average.items())
    # (With another seed a layer may learn nothing from one batch.)
    assert not any(torch.equal(found[name], parameter) for name, parameter in strategy.model.named_parameters())


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_fsdp_wrapped_module.", "model."])
def test_names_of_wrapped_models(prefix: str) -> None:
    tensors = nn.Linear(2, 3).state_dict()
    wrapped = {prefix + name: tensor for name, tensor in tensors.items()}
    found, removed = state.unwrapped(wrapped, tensors)
    assert removed == prefix
    assert found.keys() == tensors.keys()
    assert state.unwrapped(tensors, tensors) == (tensors, "")


def test_names_that_only_look_wrapped() -> None:
    tensors = {"module.weight": torch.zeros(1), "bias": torch.zeros(1)}
    assert state.unwrapped(tensors, ["weight", "other"]) == (tensors, "")
    own = {"model.weight": torch.zeros(1)}
    assert state.unwrapped(own, ["model.weight"]) == (own, "")
