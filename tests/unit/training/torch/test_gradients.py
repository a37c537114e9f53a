from __future__ import annotations

import pytest
import torch
from torch import nn

from drivetrain.training.layout import Layout
from drivetrain.training.process import Process
from drivetrain.training.torch import gradients

LAYOUT = Layout(Process(0, 1, 0, 1, torch.device("cpu")), {})


def parameters(dtype: torch.dtype = torch.float64) -> list[nn.Parameter]:
    made = [nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in ((3, 4), (5,), ())]
    for parameter in made[:2]:  # the third was not used
        parameter.grad = torch.randn_like(parameter)
    return made


def test_the_norm_is_torchs() -> None:
    made = parameters()
    expected = nn.utils.get_total_norm([p.grad for p in made if p.grad is not None])
    assert float(gradients.total_norm(made, LAYOUT)) == float(expected)


def test_no_gradient_at_all() -> None:
    made = [nn.Parameter(torch.zeros(3))]
    assert float(gradients.total_norm(made, LAYOUT)) == 0.0
    gradients.scale(made, 0.5)
    assert made[0].grad is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_shows(value: float) -> None:
    made = parameters(torch.float32)
    assert made[1].grad is not None
    made[1].grad[2] = value
    assert not gradients.total_norm(made, LAYOUT).isfinite()


@pytest.mark.parametrize("factor", [0.25, torch.tensor(0.25, dtype=torch.float64)])
def test_all_are_scaled(factor: float) -> None:
    made = parameters()
    before = [p.grad.clone() for p in made if p.grad is not None]
    gradients.scale(made, factor)
    for parameter, gradient in zip(made, before, strict=False):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, gradient * 0.25)
