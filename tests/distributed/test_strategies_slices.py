"""Slices of tensors, their way from and to whole ones, and the length of a gradient that lies in slices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from drivetrain.training.process import Process
from drivetrain.training.torch import gradients
from drivetrain.training.torch.parallel.layout import lay_out
from drivetrain.training.torch.parallel.sharded import local, num_slices, whole
from tests.distributed.strategy_training import fill

WHOLE = torch.arange(15, dtype=torch.float64).reshape(5, 3)
PLACEMENTS = [(Replicate(), Replicate()), (Replicate(), Shard(0)), (Shard(0), Replicate()), (Shard(0), Shard(1))]


def slices(process: Process) -> list[tuple[int, float]]:
    """How many slices each placement makes, and the norm of gradients of all placements together."""
    layout = lay_out(process, "any", ("replicate", "shard"), {"replicate": 2, "shard": 2})
    assert layout.mesh is not None
    found, parameters = [], []
    for placements in PLACEMENTS:
        tensor = distribute_tensor(WHOLE.clone(), layout.mesh, placements)
        assert torch.equal(whole(tensor), WHOLE)
        fill(tensor, WHOLE + 1)
        assert torch.equal(whole(tensor), WHOLE + 1)
        parameter = nn.Parameter(tensor)
        parameter.grad = distribute_tensor(WHOLE, layout.mesh, placements)
        parameters.append(parameter)
        found.append((num_slices(tensor), float(gradients.total_norm([parameter], layout))))
    plain = nn.Parameter(WHOLE.clone())
    plain.grad = WHOLE.clone()
    found.append((num_slices(plain), float(gradients.total_norm([*parameters, plain], layout))))

    # A gradient that is still a sum to be made is added up first.
    partial = nn.Parameter(distribute_tensor(WHOLE, layout.mesh, PLACEMENTS[0]))
    partial.grad = DTensor.from_local(WHOLE / 4, layout.mesh, (Partial(), Partial()))
    gradients.settle([partial])
    with torch.no_grad():
        assert torch.equal(local(partial.grad), WHOLE)
    return found


def test_the_length_of_a_gradient_in_slices(pooled: Any) -> None:
    length = float(WHOLE.norm())
    answers = pooled(4, slices)
    assert answers == [answers[0]] * 4
    assert [count for count, _ in answers[0]] == [1, 2, 2, 4, 1]
    *each, together = [norm for _, norm in answers[0]]
    assert each == pytest.approx([length] * 4, rel=1e-14)
    assert together == pytest.approx(length * 5**0.5, rel=1e-14)
