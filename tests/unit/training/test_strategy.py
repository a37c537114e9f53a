from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch, load_recipe
from drivetrain.training.strategy import load_strategy
from drivetrain.training.torch.recipes import build_model
from drivetrain.training.torch.strategy import Strategy, pieces
from drivetrain.training_scripts.recipes import digits_cnn
from drivetrain.training_scripts.strategies import dp
from tests.fixtures.told import told

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
BATCH = Batch(torch.rand(5, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), torch.arange(5))


def build(name: str = "single", **common: Any) -> Strategy:
    recipe = load_recipe("digits_cnn", {"channels": 2, "hidden": 4})
    torch.manual_seed(0)
    kind, options = load_strategy(name, {})
    settings = {"learning_rate": 1e-300, "precision": "fp64"} | common
    return kind(recipe, recipe.model(), ALONE, told(**settings), options)


def test_a_typo_gets_the_closest_name() -> None:
    with pytest.raises(InputError, match=r"no strategy 'singel'\. Did you mean 'single'\? Allowed: .*ddp, .*single"):
        load_strategy("singel", {})


@pytest.mark.parametrize("name", ["single", "ddp"])
@pytest.mark.parametrize("accumulation", [1, 2, 7])
def test_the_gradient_is_the_mean_of_all_samples(name: str, accumulation: int) -> None:
    strategy = build(name, accumulation=accumulation)
    losses = strategy.recipe.losses(strategy.model(BATCH.inputs), BATCH.targets)
    expected = torch.autograd.grad(losses.mean(), list(strategy.model.parameters()))
    step = strategy.train_step(BATCH, num_samples=5, num_global_samples=5)
    assert step.loss == pytest.approx(losses.sum().item(), rel=1e-7)
    assert step.gradient_norm is None
    for parameter, gradient in zip(strategy.model.parameters(), expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=1e-14)


def test_the_norm_is_measured_when_wanted() -> None:
    strategy = build()
    step = strategy.train_step(BATCH, num_samples=5, num_global_samples=5, measure=True)
    expected = nn.utils.get_total_norm([p.grad for p in strategy.model.parameters() if p.grad is not None])
    assert step.gradient_norm is not None
    assert float(step.gradient_norm) == float(expected)


def test_what_is_clipped_in_half_precision_is_the_gradient_without_the_scale() -> None:
    """The length of what is applied is the bound, whatever the loss was multiplied by."""
    clip = 0.01
    strategy = build(precision="fp16", clip_norm=clip)
    assert strategy.loss_scale
    strategy.loss_scale.value = 64.0
    step = strategy.train_step(BATCH.to(ALONE.device, torch.float32), num_samples=5, num_global_samples=5)
    assert step.gradient_norm is not None and float(step.gradient_norm) > 5 * clip
    applied = nn.utils.get_total_norm([p.grad for p in strategy.model.parameters() if p.grad is not None])
    assert float(applied) == pytest.approx(clip, rel=1e-3)


def test_a_stand_in_batch_counts_nothing() -> None:
    strategy = build("ddp")
    step = strategy.train_step(Batch(BATCH.inputs[:1], BATCH.targets[:1]), num_samples=0, num_global_samples=3)
    assert step.loss == 0.0
    assert all(p.grad is not None and not p.grad.any() for p in strategy.model.parameters())


def test_each_rank_goes_through_the_same_number_of_pieces() -> None:
    cut = [(piece.targets.tolist(), counted, last) for piece, counted, last in pieces(BATCH, 5, 3)]
    assert cut == [([0], 1, False), ([1, 2], 2, False), ([3, 4], 2, True)]
    two = Batch(BATCH.inputs[:2], BATCH.targets[:2])
    assert [counted for _, counted, _ in pieces(two, 2, 4)] == [0, 1, 0, 1]
    assert all(len(piece.targets) == 1 for piece, _, _ in pieces(two, 2, 4))
    assert [counted for _, counted, _ in pieces(two, 0, 2)] == [0, 0]  # a stand-in is one in each


def test_learning_rates_of_groups_are_kept_as_shares() -> None:
    strategy = build(learning_rate=0.3)
    assert all(group["initial_lr"] == group["lr"] for group in strategy.optimizer.param_groups)


def test_the_average_is_what_is_evaluated() -> None:
    strategy = build(learning_rate=0.1, ema_decay=0.5)
    before = [parameter.detach().clone() for parameter in strategy.model.parameters()]
    strategy.train_step(BATCH, num_samples=5, num_global_samples=5)
    after = [parameter.detach().clone() for parameter in strategy.model.parameters()]
    with strategy.in_evaluation():
        for parameter, first, last in zip(strategy.model.parameters(), before, after, strict=True):
            torch.testing.assert_close(parameter.detach(), (first + last) / 2)
    for parameter, last in zip(strategy.model.parameters(), after, strict=True):
        assert torch.equal(parameter, last)


@pytest.mark.parametrize(
    ("device", "count", "common", "message"),
    [
        ("cpu", 0, {}, "this machine has none"),
        ("cuda", 1, {}, "is for several GPUs, and one is visible"),
        ("cuda", 4, {"compile": True}, "compile=True does not work with strategy 'dp'"),
    ],
)
def test_data_parallel_where_it_makes_no_sense(
    device: str, count: int, common: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    strategy = object.__new__(dp.Strategy)
    strategy.process = Process(0, 1, 0, 1, torch.device(device))
    strategy.config = told(learning_rate=0.1, **common)
    with pytest.raises(InputError, match=message):
        strategy.check()


class HeadAlone(digits_cnn.Recipe):
    def optimizer(self, model: nn.Module, **given: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(list(model.parameters())[-2:], lr=0.1)


def test_a_parameter_in_no_optimizer_counts_as_a_frozen_one() -> None:
    """Its gradient would add up over the steps, and be lost at a restart."""
    recipe: Any = HeadAlone(channels=2, hidden=4)
    kind, options = load_strategy("single", {})
    norms = list[list[float]]()
    for freezes in (True, False):
        torch.manual_seed(0)
        model = recipe.model()
        for parameter in list(model.parameters())[:-2]:
            parameter.requires_grad_(not freezes)
        strategy = kind(recipe, model, ALONE, told(learning_rate=0.1, clip_norm=0.1, precision="fp64"), options)
        steps = [strategy.train_step(BATCH, num_samples=5, num_global_samples=5) for _ in range(3)]
        norms.append([float(step.gradient_norm) for step in steps])
    assert norms[0] == norms[1]


@dataclass(frozen=True, kw_only=True)
class Weighing(digits_cnn.Recipe):
    weights: tuple[float, ...] = ()

    def loss_weights(self, targets: torch.Tensor) -> torch.Tensor:
        return torch.tensor(self.weights)


def weighing(*weights: float) -> Strategy:
    recipe: Any = Weighing(channels=2, hidden=4, weights=weights)
    kind, options = load_strategy("single", {})
    return kind(recipe, recipe.model(), ALONE, told(learning_rate=1e-300, precision="fp64"), options)


def test_the_gradient_is_the_mean_of_samples_by_what_they_weigh() -> None:
    strategy = weighing(1, 0, 3, 0.5, 2)
    losses = strategy.recipe.losses(strategy.model(BATCH.inputs), BATCH.targets)
    summed = (losses * torch.tensor([1, 0, 3, 0.5, 2], dtype=torch.float64)).sum()
    expected = torch.autograd.grad(summed / 6.5, list(strategy.model.parameters()))
    step = strategy.train_step(BATCH, num_samples=5, num_global_samples=5)
    assert step.weight is not None
    assert float(step.weight) == 6.5
    assert step.loss == pytest.approx(summed.item(), rel=1e-7)
    for parameter, gradient in zip(strategy.model.parameters(), expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=1e-14)


def test_a_batch_that_weighs_nothing_has_a_gradient_of_zero() -> None:
    step = (strategy := weighing(0, 0, 0, 0, 0)).train_step(BATCH, num_samples=5, num_global_samples=5)
    assert float(step.loss) == 0.0
    assert all(not parameter.grad.any() for parameter in strategy.model.parameters() if parameter.grad is not None)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ((1, 1), r"loss_weights\(\) of the recipe returned shape \[2\]; it must return one number a sample"),
        ((1, 1, -1, 1, 1), r"loss_weights\(\) of the recipe returned .*; it must return finite numbers from 0"),
        ((1, 1, float("nan"), 1, 1), "it must return finite numbers from 0"),
    ],
)
def test_weights_that_are_none_are_refused(weights: tuple[float, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        weighing(*weights).train_step(BATCH, num_samples=5, num_global_samples=5)


def test_each_group_keeps_its_share_of_the_learning_rate() -> None:
    strategy = build()
    strategy.optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(()))], "lr": 0.01})
    strategy.optimizer.param_groups[1]["initial_lr"] = 0.01
    for factor in (1.0, 0.75, 0.5):
        rates = [factor * group["initial_lr"] for group in strategy.optimizer.param_groups]
        assert strategy.set_learning_rate(factor) == rates[0]
        assert [group["lr"] for group in strategy.optimizer.param_groups] == rates


class Complex(nn.Module):
    def __init__(self, part: str) -> None:
        super().__init__()
        self.gain, self.part = nn.Parameter(torch.ones(10)), part
        if part == "parameter":
            self.wave = nn.Parameter(torch.ones(10, dtype=torch.complex64))
        if part == "buffer":
            self.register_buffer("wave", torch.ones(10, dtype=torch.complex64), persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.complex(self.gain * images.mean(), self.gain).expand(len(images), 10)


class OfComplex(digits_cnn.Recipe):
    part = ""

    def model(self) -> nn.Module:
        return Complex(self.part)


@pytest.mark.parametrize("part", ["parameter", "buffer"])
def test_a_model_with_complex_numbers_is_refused(part: str) -> None:
    recipe = OfComplex()
    object.__setattr__(recipe, "part", part)
    with pytest.raises(InputError, match=rf"{part} 'wave' of the recipe's model is complex; .*torch\.view_as_real"):
        build_model(recipe)


def test_a_model_with_a_state_beside_its_tensors_is_refused() -> None:
    class Counting(nn.Linear):
        def get_extra_state(self) -> dict[str, int]:
            return {"calls": 1}

    class Own(digits_cnn.Recipe):
        def model(self) -> nn.Module:
            return nn.Sequential(Counting(2, 2))

    with pytest.raises(InputError, match=r"Counting '0' of the recipe's model has get_extra_state\(\), which neither"):
        build_model(Own())


def test_complex_outputs_are_refused() -> None:
    recipe = OfComplex()
    kind, options = load_strategy("single", {})
    strategy = kind(recipe, build_model(recipe), ALONE, told(learning_rate=0.1, precision="fp64"), options)
    with pytest.raises(InputError, match=r"what the recipe's model returned is complex; .*torch\.view_as_real"):
        strategy.train_step(BATCH, num_samples=5, num_global_samples=5)


def test_complex_inputs_stay_complex() -> None:
    inputs = torch.ones(2, dtype=torch.complex64)
    assert Batch(inputs, inputs).to(ALONE.device, torch.float32).inputs is inputs
