from __future__ import annotations

import pytest
import torch
from torch import nn

from drivetrain.training.torch.average import MovingAverage


def test_it_follows_its_formula() -> None:
    model = nn.Linear(2, 3).double()
    average = MovingAverage(dict(model.named_parameters()), 0.75)
    expected = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for _ in range(5):
        for name, parameter in model.named_parameters():
            nn.init.normal_(parameter)
            expected[name] = 0.75 * expected[name] + 0.25 * parameter.detach()
        average.update()
    for name, value in expected.items():
        torch.testing.assert_close(average.values[name], value, rtol=0, atol=1e-15)


def test_the_parameters_come_back_even_after_an_error() -> None:
    model = nn.Linear(2, 3)
    average = MovingAverage(dict(model.named_parameters()), 0.5)
    start = model.weight.detach().clone()
    nn.init.normal_(model.weight)
    trained = model.weight.detach().clone()
    held = model.weight
    with pytest.raises(RuntimeError, match="while evaluating"), average.in_place():
        assert model.weight is held  # the optimizer's very parameter
        assert torch.equal(model.weight, start)
        raise RuntimeError("while evaluating")
    assert torch.equal(model.weight, trained)
    assert torch.equal(average.values["weight"], start)
