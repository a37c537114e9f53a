"""A loss that mixes samples is noticed, wherever in the batch; so is one that its parts do not come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from drivetrain.base.errors import InputError
from drivetrain.training.torch import loss_checks
from drivetrain.training.torch.loss_checks import check_parts, check_samples_apart

Losses = Callable[[Tensor], Tensor]
SIZE = 11
OUTPUTS = torch.rand(SIZE, 3, generator=torch.Generator().manual_seed(0)) + 0.5


class Recipe:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._losses(outputs)


def check(losses: Losses, size: int = SIZE) -> None:
    recipe: Any = Recipe(losses)
    outputs = OUTPUTS[:size].clone().requires_grad_()
    found = losses(outputs.clone()).detach()
    check_samples_apart(recipe, "losses", outputs, torch.zeros(size), found)


def own(outputs: Tensor) -> Tensor:
    return outputs.square().sum(dim=1)


def from_the_third_on(outputs: Tensor) -> Tensor:
    return torch.cat([own(outputs)[:2], own(outputs)[2:] * 0 + own(outputs)[2:].mean()])


def of_one_pair(first: int, second: int) -> Losses:
    def losses(outputs: Tensor) -> Tensor:
        mixed = own(outputs)
        if len(mixed) > max(first, second):
            mixed = mixed + (torch.arange(len(mixed)) == first) * 1e-3 * mixed[second]
        return mixed

    return losses


def of_full_batches(outputs: Tensor) -> Tensor:
    """In value alone: no gradient tells of it."""
    return own(outputs) / (own(outputs).mean().detach() if len(outputs) == SIZE else 1.0)


def by_place(outputs: Tensor) -> Tensor:
    return own(outputs) * torch.arange(1, len(outputs) + 1)


@pytest.mark.parametrize("losses", [own, lambda outputs: outputs.sum(dim=1).exp()])
@pytest.mark.parametrize("size", [2, 3, SIZE])
def test_losses_of_their_own_samples_pass(losses: Losses, size: int) -> None:
    check(losses, size)


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        (from_the_third_on, "the loss of a sample depends on the outputs of another"),
        (of_full_batches, "the loss of sample 11 is .* among 11 samples and .* among 6 of them"),
        (by_place, "the loss of sample 11 is .* among 11 samples"),
    ],
)
def test_a_loss_that_mixes_some_samples_or_full_batches_is_refused(losses: Losses, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(losses)


@pytest.mark.parametrize(("first", "second"), [(0, 1), (9, 10), (10, 9), (3, 8), (7, 0)])
def test_a_loss_that_looks_at_one_other_sample_is_refused(first: int, second: int) -> None:
    with pytest.raises(InputError, match=rf"outputs of another \(sample {second + 1} of 11\)"):
        check(of_one_pair(first, second))


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        (from_the_third_on, "depends on the outputs of another"),
        (of_full_batches, "the loss of sample 1 is .* among 11 samples and .* among 4 of them"),
    ],
)
def test_of_large_outputs_some_samples_are_looked_at(
    losses: Losses, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_checks, "MOST_BYTES", 4 * OUTPUTS[0].nbytes)
    check(own)
    with pytest.raises(InputError, match=words):
        check(losses)


def test_losses_that_draw_are_not_said_to_mix_samples() -> None:
    check(lambda outputs: own(outputs) * torch.rand(len(outputs)))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nonfinite_losses_are_not_said_to_mix_samples(value: float) -> None:
    check(lambda outputs: (outputs * value).sum(dim=1))


def test_losses_may_change_the_outputs_in_place() -> None:
    def losses(outputs: Tensor) -> Tensor:
        outputs[:, 2] = -1e9
        return outputs.clamp_(min=0).sum(dim=1)

    recipe: Any = Recipe(losses)
    outputs = OUTPUTS.clone()
    check_samples_apart(recipe, "losses", outputs, torch.zeros(SIZE))
    assert torch.equal(outputs, OUTPUTS)


class Parted(Recipe):
    """Means over the positions with a target above 0."""

    def __init__(self, factor: float = 1.0, *, weight: float = 1.0) -> None:
        self.factor, self.weight = factor, weight

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs * (targets > 0)).sum(dim=1) / (targets > 0).sum(dim=1).clamp(min=1)

    def loss_parts(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        counts = targets > 0
        return self.factor * (outputs * counts).sum(dim=1), self.weight * counts.sum(dim=1)


class PartsOfMeans(Parted):
    """Right for whole sequences only."""

    def loss_parts(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return self.losses(outputs, targets), torch.ones(len(outputs))


TARGETS = torch.tensor([[0, 0, 0, 0, 0], [1, 1, 0, 1, 0], [1, 1, 1, 1, 1]])
POSITIONS = torch.rand(3, 5, generator=torch.Generator().manual_seed(0))


def test_losses_that_are_those_of_their_parts_pass() -> None:
    """The first sample has no position that counts: its parts say nothing."""
    recipe: Any = Parted()
    check_parts(recipe, POSITIONS, TARGETS)
    recipe = Parted(3.0, weight=3.0)
    check_parts(recipe, POSITIONS, TARGETS)


@pytest.mark.parametrize("recipe", [Parted(1.01), Parted(weight=2.0), PartsOfMeans()])
def test_losses_that_differ_from_their_parts_are_refused(recipe: Any) -> None:
    words = r"losses\(\) and loss_parts\(\) of the recipe disagree: the loss of sample [12] is .* by losses"
    with pytest.raises(InputError, match=words):
        check_parts(recipe, POSITIONS, TARGETS)
