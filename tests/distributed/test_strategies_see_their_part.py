"""Models that look across samples, or draw numbers: each rank's part of a batch is a forward pass of its own.

They are compared with plain torch in one process that works through the ranks' parts one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.cursor import Order, share
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy
from tests.distributed.strategy_models import CLASSES, SIDE, Memory, Recipe
from tests.distributed.strategy_runs import FIRST, Run, parameters
from tests.distributed.strategy_training import (
    GLOBAL_BATCH,
    NUM_SAMPLES,
    Setting,
    Trained,
    build,
    fit,
    fit_each,
    identical,
)
from tests.fixtures.told import told

CLIP, STEPS = 0.5, 8


def imitate(kind: str, data_size: int) -> tuple[list[float], dict[str, np.ndarray[Any, Any]], float]:
    """Losses, parameters and buffers, and the loss on held-out samples, of `data_size` ranks in one process.

    Buffers are those of the first rank: each step starts with them on all ranks, and they are what remains.
    """
    recipe = Recipe(kind=kind)
    torch.manual_seed(0)
    model = recipe.model().double().train()
    optimizer = recipe.optimizer(model, learning_rate=2e-2, weight_decay=1e-2)
    data, order = Memory(recipe, recipe.samples(NUM_SAMPLES)), Order(NUM_SAMPLES, GLOBAL_BATCH, seed=3)
    losses = []
    for step in range(STEPS):
        epoch, within = divmod(step, order.steps_per_epoch)
        indices = order.batch(epoch * NUM_SAMPLES + within * GLOBAL_BATCH)
        buffers_before = {name: buffer.clone() for name, buffer in model.named_buffers()}
        buffers_after = dict(buffers_before)
        total = torch.zeros((), dtype=torch.float64)
        for rank in range(data_size):
            own = share(indices, rank, data_size)
            batch = data.batch(own if len(own) else indices[:1])
            torch.manual_seed(1000 * step + rank)
            buffers = {name: buffer.clone() for name, buffer in buffers_before.items()}
            outputs = torch.func.functional_call(model, buffers, (batch.inputs,))
            if rank == 0:
                buffers_after = buffers
            if len(own):
                total = total + recipe.losses(outputs, batch.targets).sum()
        optimizer.zero_grad()
        (total / len(indices)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        model.load_state_dict(buffers_after, strict=False)
        losses.append(float(total.detach()) / len(indices))
    held_out = recipe.samples(23, seed=1)
    with torch.no_grad():
        held_out_loss = float(recipe.losses(model.eval()(held_out.inputs), held_out.targets).mean())
    return losses, {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}, held_out_loss


def fit_with_size(process: Process, run: Run, setting: Setting) -> tuple[int, Trained]:
    return build(process, run, setting).layout.data_size, fit(process, run, setting)


@pytest.mark.slow_cases(
    "tp-2-tensor=2-batchnorm", "fsdp-2-dropout", "ddp-2-batchnorm", "tp-2-tensor=2-dropout", "fsdp-2-batchnorm"
)
@pytest.mark.parametrize("kind", ["batchnorm", "dropout"])
@pytest.mark.parametrize("run", parameters([run for run in FIRST if run.deals_alike], quick_ranks=2))
def test_each_part_is_a_forward_pass(run: Run, kind: str, pooled: Any) -> None:
    if not set(run.models) & {"conv"}:
        pytest.skip(f"{run.strategy} takes no convolutional model")
    setting = Setting(kind=kind, clip_norm=CLIP, steps=STEPS)
    answers = pooled(run.world_size, fit_with_size, run, setting)
    data_size, trained = answers[0]
    losses, model, held_out_loss = imitate(kind, data_size)
    assert losses[-2] < losses[0]
    np.testing.assert_allclose(trained.losses, losses, rtol=0, atol=1e-10)
    assert trained.model.keys() == model.keys()
    for name, expected in model.items():
        np.testing.assert_allclose(trained.model[name], expected, rtol=0, atol=1e-10, err_msg=name)
    assert trained.evaluation["loss"] == pytest.approx(held_out_loss, rel=0, abs=1e-10)
    if kind == "batchnorm":
        assert model["1.num_batches_tracked"] == STEPS
    if kind == "dropout" and data_size > 1:  # the parts differ: each rank draws its own
        assert abs(imitate(kind, 1)[0][0] - losses[0]) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("run", [run for run in FIRST if run.strategy == "tp_pp_fsdp"], ids=lambda run: run.id)
def test_running_statistics_in_one_stage_only(run: Run, pooled: Any) -> None:
    """The other stages make the same groups of ranks nevertheless: a second training in the same processes meets."""
    setting = Setting(kind="batchnorm", steps=2)
    first, second = pooled(run.world_size, fit_each, run, [setting, setting])[0]
    assert identical(first, second)
    assert first.model["1.num_batches_tracked"] > 0


def step_on_few(process: Process, run: Run, num_samples: int, accumulation: int) -> str:
    """Two steps on a global batch of `num_samples` for a model that cannot normalize a single one."""
    common = {"global_batch": num_samples}
    strategy = build(process, run, Setting(kind="bn1d", accumulation=accumulation, common=common))
    recipe, layout = strategy.recipe, strategy.layout
    assert isinstance(recipe, Recipe)
    own = share(np.arange(num_samples), layout.data_rank, layout.data_size)
    batch = Memory(recipe, recipe.samples(num_samples)).batch(own if len(own) else np.arange(1))
    try:
        for _ in range(2):
            strategy.train_step(batch, num_samples=len(own), num_global_samples=num_samples)
    except InputError as error:
        return str(error)
    finally:
        batches = int(strategy.model.state_dict().get("2.num_batches_tracked", 0))
    return f"{batches} batches"


@pytest.mark.parametrize(("run", "num_samples"), [(Run("ddp", 2), 8), (Run("fsdp", 2), 8)])
def test_layers_that_need_two_samples(run: Run, num_samples: int, pooled: Any) -> None:
    for said in pooled(run.world_size, step_on_few, run, num_samples, 2):
        assert said == "4 batches"


@pytest.mark.parametrize(
    ("run", "num_samples", "accumulation"),
    [
        (Run("ddp", 1), 1, 1),
        (Run("ddp", 2), 2, 1),
        (Run("fsdp", 2), 2, 1),
        (Run("fsdp", 2), 4, 2),
        (Run("pp", 2), 3, 1),
    ],
)
def test_a_single_sample_where_two_are_needed(run: Run, num_samples: int, accumulation: int, pooled: Any) -> None:
    """Every rank has one here, so that each says so and none waits for another."""
    for said in pooled(run.world_size, step_on_few, run, num_samples, accumulation):
        assert said.startswith(
            f"a batch of {num_samples} samples, dealt into {1 if run.strategy == 'pp' else run.world_size} parts"
        )
        assert ("each cut into 2 pieces" in said) == (accumulation > 1)
        assert "BatchNorm" in said and "drop_last=True" in said


class Counting(nn.Module):
    """Its outputs depend on a buffer that it changes: on what this rank, or another one, has seen so far."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(SIDE**2, CLASSES)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.linear(inputs.flatten(1)) + self.seen
        self.seen += inputs.detach().mean()
        return outputs


@dataclass(frozen=True, kw_only=True)
class CountingRecipe(Recipe):
    def model(self) -> nn.Module:
        return nn.Sequential(Counting())

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.square().mean(dim=1)


def losses_with_a_buffer(process: Process, name: str) -> list[float]:
    """This rank's losses of three steps, in which nothing is learnt."""
    recipe = CountingRecipe()
    kind, options = load_strategy(name, {})
    torch.manual_seed(0)
    strategy = kind(recipe, recipe.model(), process, told(learning_rate=1e-300, precision="fp64"), options)
    inputs = torch.full((2, 1, SIDE, SIDE), 1.0 + process.rank, dtype=torch.float64)
    batch = Batch(inputs, torch.zeros(2, dtype=torch.int64))
    return [float(strategy.train_step(batch, num_samples=2, num_global_samples=4).loss) for _ in range(3)]


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_every_step_begins_with_the_first_ranks_buffers(name: str, pooled: Any) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(SIDE**2, CLASSES).double()
    for rank, losses in enumerate(pooled(2, losses_with_a_buffer, name)):
        outputs = linear(torch.full((1, SIDE**2), 1.0 + rank, dtype=torch.float64)).detach()
        # Three steps, each with one more of the first rank's means, which are 1.
        assert losses == pytest.approx([2 * float((outputs + step).square().mean()) for step in range(3)], abs=1e-12)
