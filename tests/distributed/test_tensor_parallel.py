"""Split matrices: the language model with all its options, along the sequence too, and dropout as in one process."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy
from drivetrain.training_scripts.recipes import decoder_lm
from tests.distributed.language_model_training import MODEL, distance, learn
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import Setting, difference, fit
from tests.fixtures.told import told


@pytest.mark.slow_cases("1-tp-options4-changes4-common4")
@pytest.mark.parametrize(
    ("world_size", "name", "options", "changes", "common"),
    [
        pytest.param(2, "tp", {}, {}, {}, marks=pytest.mark.slow),
        pytest.param(2, "tp", {"sequence": True}, {}, {}, marks=pytest.mark.slow),
        (2, "tp", {}, {"dropout": 0.2}, {}),
        pytest.param(
            *(2, "tp", {"sequence": True}, {"dropout": 0.2}, {"activation_checkpointing": True}), marks=pytest.mark.slow
        ),
        (1, "tp", {}, {}, {}),
        pytest.param(4, "tp", {"sequence": True}, {}, {}, marks=pytest.mark.slow),
        pytest.param(4, "fsdp_tp", {"tensor": 2, "sequence": True}, {}, {}, marks=pytest.mark.slow),
        pytest.param(4, "fsdp_tp", {"tensor": 4}, {}, {}, marks=pytest.mark.nightly),
        pytest.param(2, "fsdp_tp", {"tensor": 1}, {}, {}, marks=pytest.mark.slow),
        pytest.param(8, "tp_pp_fsdp", {}, {}, {}, marks=pytest.mark.slow),
        pytest.param(2, "pp", {"schedule": "zero_bubble"}, {}, {}, marks=pytest.mark.slow),
    ],
)
def test_the_language_model_equals_one_process(
    world_size: int, name: str, options: dict[str, Any], changes: dict[str, Any], common: dict[str, Any], pooled: Any
) -> None:
    recipe = decoder_lm.Recipe(**(vars(MODEL) | changes))
    (expected,) = pooled(1, learn, "single", {}, recipe, {})
    first, *others = pooled(world_size, learn, name, options, recipe, common)
    assert distance(first, expected) < 1e-10
    for other in others:
        assert other[0] == first[0]
    if name == "tp":
        # Each block: query, key, value and up with their biases, out and down without; the embedding; the head.
        assert first[2] == 2 * (4 * 2 + 2) + 1 + 2


def test_dropout_on_split_features_has_the_masks_of_one_process(pooled: Any) -> None:
    """`conv` with dropout between the two layers that are split: each rank drops its own features."""
    setting = Setting(kind="dropout", steps=5)
    (expected,) = pooled(1, fit, Run("single", 1), setting)
    trained = pooled(2, fit, Run("tp", 2), setting)[0]
    assert difference(trained, expected) < 1e-10


class Bare:
    """What a strategy asks of a recipe before the first step; no plan."""

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=learning_rate)


class WithPlan(Bare):
    def __init__(self, plan: dict[str, str]) -> None:
        self.plan = plan

    def tensor_plan(self) -> dict[str, str]:
        return self.plan


class Mlp(nn.Module):
    """Two layers with something between, outside of a chain."""

    def __init__(self, between: nn.Module) -> None:
        super().__init__()
        self.up, self.between, self.down = nn.Linear(4, 6), between, nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.between(self.up(x)))


def tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    return model


class Heads(nn.Module):
    head_dim = 2

    def __init__(self) -> None:
        super().__init__()
        self.query, self.out = nn.Linear(4, 6), nn.Linear(6, 4)


def refused(process: Process, model: nn.Module, plan: Any, options: dict[str, Any]) -> str:
    kind, built = load_strategy("tp", options)
    recipe: Any = Bare() if plan is None else WithPlan(plan)
    with pytest.raises(InputError) as caught:
        kind(recipe, model, process, told(learning_rate=1e-2), built)
    return str(caught.value)


NORM, LAST = nn.LayerNorm(4), nn.Linear(4, 4)
PAIR = {"up": "colwise", "down": "rowwise"}


@pytest.mark.parametrize(
    ("model", "plan", "options", "words"),
    [
        (nn.Conv2d(1, 1, 1), None, {}, "the recipe has no method tensor_plan() -> dict"),
        (nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 4)), None, {}, "whose inner features 2 ranks can share"),
        (nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4)), None, {}, "no two Linear layers in a row"),
        (Mlp(nn.ReLU()), {"up": "colwize"}, {}, "Did you mean 'colwise'?"),
        (Mlp(nn.ReLU()), {"upp": "colwise"}, {}, "Did you mean 'up'?"),
        (Mlp(nn.ReLU()), {"between": "colwise"}, {}, "'colwise' for 'between', a ReLU"),
        (Mlp(nn.ReLU()), {"up": "colwise"}, {}, "no layer split 'rowwise' follows 'up'"),
        (nn.Sequential(Mlp(nn.ReLU()), LAST), {"0.down": "rowwise", "1": "colwise"}, {}, "follows '1'"),
        (nn.Sequential(nn.Linear(4, 4), NORM, nn.Linear(4, 3), NORM), None, {}, "no two Linear layers in a row"),
        (Mlp(nn.Dropout(0.5)), PAIR, {}, "does 'between' drop features that are split?"),
        (
            nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 4)),
            {"0": "colwise", "1": "rowwise"},
            {},
            "'0' has 3 features, which 2 ranks cannot share evenly",
        ),
        (Heads(), {"query": "colwise", "out": "rowwise"}, {}, "'query' makes 3 heads"),
        (tied(), {"0": "colwise", "1": "rowwise"}, {}, "'0.weight' and '1.weight' are one and the same parameter"),
        (Mlp(nn.LayerNorm(6)), PAIR, {"sequence": True}, "'between' would see some positions only"),
    ],
)
def test_unsplittable_models_are_refused(
    model: nn.Module, plan: Any, options: dict[str, Any], words: str, pooled: Any
) -> None:
    assert all(words in message for message in pooled(2, refused, model, plan, options))


def refusal_of(process: Process, recipe: Any, length: int) -> str:
    kind, built = load_strategy("tp", {"sequence": True})
    strategy = kind(recipe, recipe.model(), process, told(learning_rate=1e-2), built)
    tokens = torch.zeros(2, length, dtype=torch.int64)
    with pytest.raises(InputError) as caught:
        strategy.train_step(Batch(tokens, tokens), num_samples=2, num_global_samples=2)
    return str(caught.value)


def test_a_sequence_that_cannot_be_shared_evenly_is_refused(pooled: Any) -> None:
    assert all("2 ranks cannot share the positions" in message for message in pooled(2, refusal_of, MODEL, 7))


class Nested(decoder_lm.Recipe):
    """The embedding and the last norm are inside of blocks, and the plan names no norm."""

    def model(self) -> nn.Module:
        made = super().model()
        parts = dict(made.named_children())
        inputs, outputs = nn.Sequential(parts.pop("embedding")), nn.Sequential(parts.pop("norm"), parts.pop("head"))
        return nn.Sequential(OrderedDict(start=Inside(inputs), **parts, end=Inside(outputs)))

    def tensor_plan(self) -> dict[str, str]:
        plan = {name: style for name, style in super().tensor_plan().items() if style != "sequence"}
        plan.update({"start.inner.0": plan.pop("embedding"), "end.inner.1": plan.pop("head")})
        return plan


class Inside(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def test_sequences_are_split_inside_of_blocks(pooled: Any) -> None:
    recipe = Nested(**vars(MODEL))
    (expected,) = pooled(1, learn, "single", {}, recipe, {})
    first, _ = pooled(2, learn, "tp", {"sequence": True}, recipe, {})
    assert distance(first, expected) < 1e-10


class NoHead(decoder_lm.Recipe):
    """Its model ends with a layer that is split along the sequence."""

    def model(self) -> nn.Module:
        model = super().model()
        del model.head
        return model

    def tensor_plan(self) -> dict[str, str]:
        plan = super().tensor_plan()
        del plan["head"]
        return plan


def test_a_model_that_ends_in_the_middle_of_a_sequence_is_refused(pooled: Any) -> None:
    recipe = NoHead(**vars(MODEL))
    assert all("put the positions together" in message for message in pooled(2, refusal_of, recipe, 8))


def test_a_plan_is_found_for_pairs_of_linears(pooled: Any) -> None:
    answers = pooled(2, placements, nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 3), nn.Linear(3, 2)))
    assert answers[0] == {"0.weight": "S(0)", "0.bias": "S(0)", "2.weight": "S(1)", "2.bias": "R"}


def placements(process: Process, model: nn.Module) -> dict[str, str]:
    kind, built = load_strategy("tp", {})
    recipe: Any = Bare()
    strategy = kind(recipe, model, process, told(learning_rate=1e-2), built)
    return {
        name: str(*parameter.placements)
        for name, parameter in strategy.parameters.items()
        if isinstance(parameter, DTensor)
    }
