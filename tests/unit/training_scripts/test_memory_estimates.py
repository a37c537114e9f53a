"""Estimates of memory against torch's MemTracker, which counts every tensor of a step: five models, two formats.

The steps are those of strategy `single` on fake tensors, on the CPU, where attention is torch's flash kernel
(scaled_dot_product_attention without dropout inside of it).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from drivetrain.catalog.instances import get_instance
from drivetrain.recommend.facts import Facts, new_file
from drivetrain.recommend.memory import estimate_memory
from drivetrain.recommend.sizing import Candidate, Sizing
from drivetrain.training.recipe import Batch, Recipe, load_recipe
from drivetrain.training.strategy import load_strategy
from drivetrain.training_scripts.profile_recipe import _example, measure
from tests.fixtures.single_strategy import ALONE
from tests.fixtures.told import told

# Name -> (recipe, its options, samples).
SHAPES: dict[str, tuple[str, dict[str, Any], int]] = {
    "logits": ("decoder_lm", {"vocabulary": 50304, "layers": 1, "width": 64, "heads": 2, "length": 256}, 8),
    "deep": ("decoder_lm", {"layers": 4, "width": 128, "heads": 4, "length": 256}, 16),
    "parameters": ("decoder_lm", {"layers": 3, "width": 1024, "heads": 8, "length": 128}, 2),
    "residual": ("cifar10_resnet", {}, 64),
    "pictures": ("mnist_cnn", {}, 64),
}
QUICK = "bf16-logits"
# Each model and each format, and with checkpointing a model of layers and one of convolutions.
BY_DAY = [
    *("fp32-deep", "fp32-parameters", "fp32-residual", "fp32-pictures"),
    *("bf16-parameters", "again-deep", "again_bf16-residual"),
]


@cache
def measured(shape: str) -> Facts:
    name, options, _ = SHAPES[shape]
    found = new_file(measure(load_recipe(name, options), name, options)).find(options)
    assert found is not None
    return found


def peak(recipe: Recipe, name: str, samples: int, **common: Any) -> int:
    """The most bytes of all tensors in a step, the second one: with the optimizer's state."""
    given = _example(recipe, name, samples)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        model = recipe.model()
        model.to = lambda *_: model  # type: ignore[method-assign]  # it is in fp32, and torch cannot swap fake parameters
        kind, options = load_strategy("single", {})
        strategy = kind(recipe, model, ALONE, told(learning_rate=1e-3, **common), options)
        strategy.model.train()
        for looked in ("apart", "of_parts"):  # at values
            setattr(strategy.first_losses, looked, lambda *_: None)
        strategy._on_host = False  # type: ignore[reportPrivateUsage]  # there, too, a loss is looked at
        batch = Batch(mode.from_tensor(given.inputs), mode.from_tensor(given.targets))
        strategy.train_step(batch, num_samples=samples, num_global_samples=samples)
        tracker = MemTracker()
        tracker.track_external(strategy.model, strategy.optimizer, batch.inputs, batch.targets)
        with tracker:
            strategy.train_step(batch, num_samples=samples, num_global_samples=samples)
        return tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]


@pytest.mark.slow_cases(*BY_DAY)
@pytest.mark.nightly_cases(but=[QUICK, *BY_DAY])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "common",
    [
        {},
        {"precision": "bf16"},
        {"activation_checkpointing": True},
        {"activation_checkpointing": True, "precision": "bf16"},
    ],
    ids=["fp32", "bf16", "again", "again_bf16"],
)
def test_estimates_are_within_a_fifth_of_what_a_step_takes(common: dict[str, Any], shape: str) -> None:
    name, options, samples = SHAPES[shape]
    recipe = load_recipe(name, options)
    plan = Sizing(
        facts=measured(shape), instance=get_instance("ml.p4d.24xlarge"), processes=1, global_batch=samples, **common
    )
    taken = peak(recipe, name, samples, **common)
    estimate = estimate_memory(plan, Candidate("single", {}))
    assert estimate.total == pytest.approx(taken, rel=0.2)
