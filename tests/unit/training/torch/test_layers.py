from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training.torch.layers import chain_of, layers_of, recompute_activations


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.drop = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + self.drop(self.norm(self.linear(x)))


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.heads = nn.ModuleDict({"one": nn.Sequential(nn.Linear(4, 2), nn.ReLU())})

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.heads["one"](x)


def test_containers_are_taken_apart_and_layers_are_not() -> None:
    names = [name for name, _ in layers_of(Own())]
    assert names == ["stem", "blocks.0", "blocks.1", "heads.one.0", "heads.one.1"]
    assert [name for name, _ in layers_of(nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()), Block()))] == [
        "0",
        "1.0",
        "2",
    ]


def test_a_chain_has_its_children_in_order() -> None:
    twice = nn.ReLU()
    model = nn.Sequential(nn.Linear(1, 1), twice, nn.Linear(1, 1), twice)
    assert [name for name, _ in chain_of(model, "pp")] == ["0", "1", "2", "3"]
    with pytest.raises(InputError, match=r"strategy 'pp' cuts a model between its layers.*not Own"):
        chain_of(Own(), "pp")


def test_layers_compute_again_and_nothing_else_changes() -> None:
    """Gradients with dropout, running statistics and names are as without."""
    torch.manual_seed(0)
    plain, again = Own(), Own()
    again.load_state_dict(plain.state_dict())
    recompute_activations(again)
    assert list(again.state_dict()) == list(plain.state_dict())
    inputs = torch.randn(6, 4)
    for model in (plain, again):
        torch.manual_seed(1)
        for _ in range(2):
            model(inputs).square().sum().backward()
    for (name, one), other in zip(plain.named_parameters(), again.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None
        assert torch.equal(one.grad, other.grad), name
    for (name, one), other in zip(plain.named_buffers(), again.buffers(), strict=True):
        assert torch.equal(one, other), name
    assert [block.calls for block in plain.blocks] == [2, 2]  # type: ignore[union-attr]
    assert [block.calls for block in again.blocks] == [4, 4]  # type: ignore[union-attr]
