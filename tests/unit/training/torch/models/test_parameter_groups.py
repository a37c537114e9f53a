from __future__ import annotations

import torch
from torch import nn

from drivetrain.training.torch.models.parameter_groups import decay_matrices, share_learning_rate


def model() -> nn.Sequential:
    built = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 2))
    built[3].bias.requires_grad_(False)
    return built


def names(built: nn.Module, group: dict[str, object]) -> list[str]:
    held = {parameter: name for name, parameter in built.named_parameters()}
    return [held[parameter] for parameter in group["params"]]  # type: ignore[attr-defined]


def test_vectors_and_frozen_parameters_do_not_decay() -> None:
    built = model()
    decayed, plain = decay_matrices(built, 0.5)
    assert (names(built, decayed), decayed["weight_decay"]) == (["0.weight", "3.weight"], 0.5)
    assert (names(built, plain), plain["weight_decay"]) == (["0.bias", "1.weight", "1.bias"], 0.0)


def test_a_step_without_gradient_shrinks_what_decays_alone() -> None:
    built = model()
    before = {name: parameter.detach().clone() for name, parameter in built.named_parameters()}
    optimizer = torch.optim.AdamW(decay_matrices(built, 0.5), lr=0.1)
    for parameter in built.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in built.named_parameters():
        assert torch.equal(parameter, before[name]) == (parameter.dim() < 2), name


def test_shares_of_the_learning_rate() -> None:
    built = model()
    groups = share_learning_rate(built, 0.5, 0.2, {"3.": 1.0, "": 0.25})
    assert [(names(built, group), group["weight_decay"], group["lr"]) for group in groups] == [
        (["3.weight"], 0.5, 0.2),
        ([], 0.0, 0.2),
        (["0.weight"], 0.5, 0.05),
        (["0.bias", "1.weight", "1.bias"], 0.0, 0.05),
    ]


def test_the_rest_has_the_whole_rate_where_nothing_is_said() -> None:
    groups = share_learning_rate(model(), 0.0, 0.2, {"0.": 0.5})
    assert [group["lr"] for group in groups] == [0.1, 0.1, 0.2, 0.2]
    assert len(share_learning_rate(nn.ReLU(), 0.0, 0.2, {"0.": 0.5})) == 4
