from __future__ import annotations

import pytest
import torch

from drivetrain.training_scripts import plugins
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.process import Process
from drivetrain.training_scripts.recipe import Batch, load_recipe
from drivetrain.training_scripts.strategy import Common, load_strategy


def test_a_typo_gets_the_closest_name() -> None:
    with pytest.raises(InputError, match=r"no strategy 'dpp'\. Did you mean 'ddp'\? Available: .*ddp, .*single"):
        load_strategy("dpp", {})


@pytest.mark.parametrize("name", plugins.names("strategies"))
def test_one_process_needs_no_group_and_the_gradient_is_the_mean(name: str) -> None:
    recipe = load_recipe("digits_cnn", {"channels": 2, "hidden": 4})
    torch.manual_seed(0)
    model = recipe.model().double()
    inputs, targets = torch.rand(5, 1, 8, 8, dtype=torch.float64), torch.arange(5)
    losses = recipe.losses(model(inputs), targets)
    expected = torch.autograd.grad(losses.mean(), list(model.parameters()))

    process = Process(0, 1, 0, 1, torch.device("cpu"))
    kind, options = load_strategy(name, {})
    strategy = kind(recipe, model, process, Common(learning_rate=0.0, precision="fp64"), options)
    loss = strategy.train_step(Batch(inputs, targets), num_samples=5, num_global_samples=5).loss

    torch.testing.assert_close(loss, losses.sum().detach())
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=1e-14)
    assert strategy.model is model  # bare: its parameters keep their names


def test_a_stand_in_batch_counts_nothing() -> None:
    recipe = load_recipe("digits_cnn", {"channels": 2, "hidden": 4})
    process = Process(0, 1, 0, 1, torch.device("cpu"))
    kind, options = load_strategy("ddp", {})
    strategy = kind(recipe, recipe.model(), process, Common(learning_rate=0.0), options)
    batch = Batch(torch.rand(1, 1, 8, 8), torch.zeros(1, dtype=torch.int64))
    loss = strategy.train_step(batch, num_samples=0, num_global_samples=3).loss
    assert loss.item() == 0.0
    assert all(p.grad is not None and not p.grad.any() for p in strategy.model.parameters())
