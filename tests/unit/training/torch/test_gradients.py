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


def test_sparse_gradients_are_as_dense_ones() -> None:
    rows = torch.tensor([1, 3, 1, 1])  # one of them three times
    found: list[tuple[float, torch.Tensor]] = []
    for sparse in (True, False):
        torch.manual_seed(0)
        layer, head = nn.Embedding(6, 4, sparse=sparse), nn.Linear(4, 1)
        head(layer(rows)).square().sum().backward()
        made = [layer.weight, *head.parameters()]
        assert made[0].grad is not None and made[0].grad.is_sparse == sparse
        norm = float(gradients.total_norm(made, LAYOUT))
        gradients.scale(made, 0.25)
        assert float(gradients.total_norm(made, LAYOUT)) == pytest.approx(norm / 4, rel=1e-6)
        torch.optim.SGD(made, lr=0.1).step()
        found.append((norm, layer.weight.detach()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-6)
    torch.testing.assert_close(found[0][1], found[1][1])
