"""The gradient of a scaled loss: kept while the scale is the same, made anew for another one."""

from __future__ import annotations

import torch

from drivetrain.training.torch.accumulation import ScaledLoss


def test_a_scale_is_made_once_and_anew_for_another_number_or_format() -> None:
    scaled, summed = ScaledLoss(), torch.tensor(3.0)
    first = scaled.gradient(summed, 0.5)
    assert (float(first), first.dtype, first.shape) == (0.5, torch.float32, torch.Size([]))
    assert scaled.gradient(summed, 0.5) is first
    assert float(scaled.gradient(summed, 0.25)) == 0.25
    assert scaled.gradient(summed.double(), 0.25).dtype == torch.float64
    assert float(scaled.gradient(summed, torch.tensor(0.125, dtype=torch.float64))) == 0.125


def test_a_backward_pass_leaves_the_kept_scale_as_it_is() -> None:
    scaled, weight = ScaledLoss(), torch.ones((), requires_grad=True)
    for _ in range(2):  # the gradients of both passes are added up, in place
        summed = weight * 1.0
        summed.backward(scaled.gradient(summed, 0.5))
    assert weight.grad is not None and float(weight.grad) == 1.0
    assert float(scaled.gradient(torch.tensor(1.0), 0.5)) == 0.5
