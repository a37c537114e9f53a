"""Sequences split over ranks: the language model with all that it may have, and what cannot be split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy
from drivetrain.training_scripts.recipes import decoder_lm
from tests.distributed import strategy_models
from tests.distributed.language_model_training import LENGTH, MODEL, distance, learn
from tests.fixtures.told import told


@pytest.mark.slow_cases("2-options1-changes1-common1")
@pytest.mark.parametrize(
    ("world_size", "options", "changes", "common"),
    [
        (2, {}, {}, {}),
        (2, {}, {"dropout": 0.2}, {"activation_checkpointing": True}),
        (1, {}, {}, {}),
        pytest.param(4, {}, {}, {}, marks=pytest.mark.slow),
        pytest.param(4, {"replicate": 2}, {}, {}, marks=pytest.mark.slow),
    ],
)
def test_the_language_model_equals_one_process(
    world_size: int, options: dict[str, Any], changes: dict[str, Any], common: dict[str, Any], pooled: Any
) -> None:
    """Sequences of 8 tokens, of 10 that the model has positions for."""
    recipe = decoder_lm.Recipe(**(vars(MODEL) | changes))
    (expected,) = pooled(1, learn, "single", {}, recipe, {})
    first, *others = pooled(world_size, learn, "cp", options, recipe, common)
    assert distance(first, expected) < 1e-10
    for other in others:
        assert other[0] == first[0]


@pytest.mark.slow_cases("Padded-2")
@dataclass(frozen=True, kw_only=True)
class Uneven(decoder_lm.Recipe):
    """Of each sequence other tokens count, of one only the last."""

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        sums, weights = self.loss_parts(outputs, targets)
        return sums / weights

    def counts(self, targets: Tensor) -> Tensor:
        return targets % 3 > 0

    def loss_parts(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        counts = self.counts(targets).to(outputs.dtype)
        losses = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
        return (losses.view_as(targets) * counts).sum(dim=1), counts.sum(dim=1)


@dataclass(frozen=True, kw_only=True)
class Padded(Uneven):
    """Of the first sequence that `learn` has no token counts, of others one or two."""

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        sums, weights = self.loss_parts(outputs, targets)
        return sums / weights.clamp(min=1)

    def counts(self, targets: Tensor) -> Tensor:
        return targets % 5 == 4


@dataclass(frozen=True, kw_only=True)
class Whole(decoder_lm.Recipe):
    """The losses of whole sequences only: the outputs are put together, and neighbouring positions stay together."""

    loss_parts = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("kind", "world_size"),
    [(Uneven, 2), (Padded, 2), *(pytest.param(*dear, marks=pytest.mark.slow) for dear in ((Whole, 2), (Uneven, 4)))],
)
def test_ignored_tokens_and_sequence_losses(kind: Any, world_size: int, pooled: Any) -> None:
    recipe = kind(**vars(MODEL))
    (expected,) = pooled(1, learn, "single", {}, recipe, {})
    first, *others = pooled(world_size, learn, "cp", {}, recipe, {})
    assert distance(first, expected) < 1e-10
    assert all(other[0] == first[0] for other in others)


class Watch(TorchDispatchMode):
    """Bytes that a rank gathers, and pairs of a query and a key that it works on, by what they are."""

    def __init__(self) -> None:
        super().__init__()
        self.gathered: Counter[int] = Counter()
        self.pairs = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.c10d.allgather_.default:
            own = args[1][0]
            self.gathered[own.shape[-1]] += sum(part.nbytes for part in args[0][0])
        if func is torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default:
            self.pairs += args[0].shape[-2] * args[1].shape[-2]
        return func(*args, **(kwargs or {}))


def watched(process: Process, recipe: decoder_lm.Recipe, length: int) -> tuple[dict[int, int], int]:
    kind, built = load_strategy("cp", {})
    strategy = kind(recipe, recipe.model(), process, told(learning_rate=1e-2), built)
    tokens = torch.zeros(3, length, dtype=torch.int64)
    for watch in (Watch(), Watch()):  # in the first step some outputs are put together, to look at the losses
        with watch:
            strategy.train_step(Batch(tokens, tokens), num_samples=3, num_global_samples=3)
    return dict(watch.gathered), watch.pairs


def test_outputs_stay_sharded_and_attention_work_is_balanced(pooled: Any) -> None:
    """2 blocks with keys and values of 16 features in fp32, of which a head has 4; outputs of 19."""
    keys_and_values = {4: 2 * 2 * 3 * 8 * 16 * 4}
    parted = pooled(2, watched, decoder_lm.Recipe(**vars(MODEL)), 8)
    assert parted == [(keys_and_values, 2 * (2 * 2 + 2 * 8)), (keys_and_values, 2 * (2 * 4 + 2 * 6))]
    whole = pooled(2, watched, Whole(**vars(MODEL)), 8)
    assert whole == [(keys_and_values | {19: 3 * 8 * 19 * 4}, 2 * 4 * keys) for keys in (4, 8)]
    # Six positions are no four chunks.
    assert [pairs for _, pairs in pooled(2, watched, decoder_lm.Recipe(**vars(MODEL)), 6)] == [2 * 3 * 3, 2 * 3 * 6]


@dataclass(frozen=True, kw_only=True)
class Disagreeing(decoder_lm.Recipe):
    """The parts forget that some tokens do not count."""

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        losses = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)
        return (losses * (targets > 4)).sum(dim=1) / (targets > 4).sum(dim=1).clamp(min=1)


def disagreement(process: Process, name: str, samples: int) -> str:
    kind, built = load_strategy(name, {})
    recipe = Disagreeing(**vars(MODEL))
    strategy = kind(recipe, recipe.model(), process, told(learning_rate=1e-2), built)
    tokens = torch.arange(samples * LENGTH).view(samples, LENGTH) % recipe.vocabulary
    with pytest.raises(InputError) as caught:
        strategy.train_step(Batch(tokens, tokens), num_samples=samples, num_global_samples=samples)
    return str(caught.value)


@pytest.mark.parametrize(("name", "world_size", "samples"), [("single", 1, 2), ("cp", 2, 2), ("cp", 2, 1)])
def test_losses_that_disagree_with_their_parts_are_refused(
    name: str, world_size: int, samples: int, pooled: Any
) -> None:
    """Of one sample too, with which no mixing can be seen."""
    for message in pooled(world_size, disagreement, name, samples):
        assert "losses() and loss_parts() of the recipe disagree: the loss of sample 1 is " in message


class Attention(nn.Module):
    """Of features [samples, positions, 4], with one head; `others` go to torch's attention."""

    def __init__(self, *, others: Mapping[str, Any]) -> None:
        super().__init__()
        self.out, self.others = nn.Linear(4, 4), others

    def forward(self, x: Tensor) -> Tensor:
        return self.out(functional.scaled_dot_product_attention(x, x, x, **self.others))


class Hidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


class Saved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("positions", torch.arange(6))


class Recipe(strategy_models.Recipe):
    """Any model; the plan is what it is given."""

    plan: dict[str, int]

    def context_plan(self) -> dict[str, int]:
        return self.plan

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().mean(dim=(1, 2))


def recipe(plan: dict[str, int]) -> Recipe:
    made = Recipe()
    object.__setattr__(made, "plan", plan)
    return made


def gradients(process: Process, name: str, model: nn.Module, length: int) -> list[Any]:
    """After one step of plain gradient descent of length 1: the parameters are what they were less the gradients."""
    kind, built = load_strategy(name, {})
    strategy = kind(recipe({}), model, process, told(learning_rate=1.0, precision="fp64"), built)
    strategy.optimizer = torch.optim.SGD(strategy.parameters.values(), lr=1.0)
    x = torch.randn(3, length, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    strategy.train_step(Batch(x, x.flip(1)), num_samples=3, num_global_samples=3)
    return [parameter.detach().numpy() for parameter in strategy.parameters.values()]


@pytest.mark.parametrize("others", [{}, {"is_causal": True}, {"is_causal": True, "scale": 0.3}])
def test_attention_that_looks_everywhere_and_that_looks_back(others: dict[str, Any], pooled: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 4), Attention(others=others), nn.Linear(4, 4))
    (expected,) = pooled(1, gradients, "single", model, 6)
    for found in pooled(2, gradients, "cp", model, 6):
        for one, other in zip(found, expected, strict=True):
            assert abs(one - other).max() < 1e-13


def refused(process: Process, model: nn.Module, plan: Any, length: int) -> str:
    kind, built = load_strategy("cp", {})
    given: Any = recipe(plan) if plan is not None else NoPlan()
    x = torch.zeros(2, length, 4)
    with pytest.raises(InputError) as caught:
        strategy = kind(given, model, process, told(learning_rate=1e-2), built)
        strategy.train_step(Batch(x, x), num_samples=2, num_global_samples=2)
    return str(caught.value)


class Mixed(Recipe):
    """Gives one number for all samples."""

    def loss_parts(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return outputs.sum(), torch.ones(())


@pytest.mark.parametrize(
    ("shape", "words"),
    [((2, 6, 4), "loss_parts() of the recipe returned shape []"), ((2,), "targets of shape [2] for 6 positions")],
)
def test_parts_of_losses_are_one_a_sample(shape: tuple[int, ...], words: str, pooled: Any) -> None:
    assert all(words in message for message in pooled(2, refused_parts, shape))


def refused_parts(process: Process, shape: tuple[int, ...]) -> str:
    kind, built = load_strategy("cp", {})
    given = Mixed()
    object.__setattr__(given, "plan", {})
    strategy = kind(given, nn.Sequential(nn.Linear(4, 4)), process, told(learning_rate=1e-2), built)
    with pytest.raises(InputError) as caught:
        batch = Batch(torch.zeros(2, 6, 4), torch.zeros(shape))
        strategy.train_step(batch, num_samples=2, num_global_samples=2)
    return str(caught.value)


class NoPlan:
    """Refused before anything is asked of it."""


LINEAR = nn.Linear(4, 4)


@pytest.mark.parametrize(
    ("model", "plan", "length", "words"),
    [
        (LINEAR, None, 6, "the recipe has no method context_plan() -> dict"),
        (LINEAR, {"positons": 0}, 6, "buffer of context_plan()"),
        (Saved(), {"positions": 0}, 6, "Register it with persistent=False"),
        (LINEAR, {}, 7, "2 ranks cannot share the positions"),
        (nn.Sequential(LINEAR, Mean()), {}, 6, "A model that sums up the sequence cannot be split along it"),
        (Hidden(), {}, 6, "the model attends by torch.nn.MultiheadAttention"),
        (Attention(others={"dropout_p": 0.5}), {}, 6, "attention with dropout"),
        (Attention(others={"attn_mask": torch.ones(6, 6).bool()}), {}, 6, "attention with a mask"),
    ],
)
def test_unsplittable_models_are_refused(model: nn.Module, plan: Any, length: int, words: str, pooled: Any) -> None:
    assert all(words in message for message in pooled(2, refused, model, plan, length))
