"""What is particular to ddp: bit for bit a loop written by hand, and its options."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy
from drivetrain.training_scripts.strategies import ddp
from tests.distributed import strategy_models
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import Setting, build, difference, fit, fit_each, worst
from tests.fixtures.told import told

ALONE = Run("single", 1)
SETTING = Setting(kind="transformer", clip_norm=0.3, ema_decay=0.8, steps=8)

Outcome = tuple[list[Tensor], list[Tensor]]


def batches(process: Process, kind: str) -> list[Batch]:
    """Eight batches of 16 samples on each rank."""
    samples = strategy_models.Recipe(kind=kind).samples(8 * 16 * process.world_size, seed=process.rank)
    rows = [slice(start, start + 16) for start in range(0, 8 * 16, 16)]
    return [Batch(samples.inputs[row], samples.targets[row]).to(process.device, torch.float32) for row in rows]


def ours(process: Process, kind: str, clip: float) -> Outcome:
    recipe = strategy_models.Recipe(kind=kind)
    found, options = load_strategy("ddp", {})
    torch.manual_seed(0)
    strategy = found(recipe, recipe.model(), process, told(learning_rate=1e-2, clip_norm=clip), options)
    strategy.model.train()
    losses = []
    for batch in batches(process, kind):
        step = strategy.train_step(batch, num_samples=16, num_global_samples=16 * process.world_size)
        losses.append(torch.tensor(step.loss / 16, dtype=torch.float32))
    with strategy.in_evaluation():
        return losses, [tensor.clone() for tensor in strategy.model.state_dict().values()]


def by_hand(process: Process, kind: str, clip: float, tutorial: bool) -> Outcome:
    """A loop as torch's tutorials have it; the loss is a sum that is divided, or criterion(outputs, targets)."""
    recipe = strategy_models.Recipe(kind=kind)
    torch.manual_seed(0)
    model = recipe.model().train()
    wrapped = DistributedDataParallel(model)
    optimizer = recipe.optimizer(model, learning_rate=1e-2, weight_decay=0.0)
    losses = []
    for batch in batches(process, kind):
        optimizer.zero_grad()
        outputs = wrapped(batch.inputs)
        if tutorial:
            scores = outputs.transpose(1, 2) if kind == "transformer" else outputs
            loss = functional.cross_entropy(scores, batch.targets)
        else:
            loss = recipe.losses(outputs, batch.targets).sum() / 16
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.detach())
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)
    return losses, [tensor.clone() for tensor in model.state_dict().values()]


def both(process: Process, kind: str, clip: float) -> None:
    losses, tensors = ours(process, kind, clip)
    expected_losses, expected = by_hand(process, kind, clip, tutorial=False)
    assert all(torch.equal(one, other) for one, other in zip(losses, expected_losses, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(tensors, expected, strict=True))
    losses, expected = by_hand(process, kind, clip, tutorial=True)
    assert all(torch.equal(one, other) for one, other in zip(tensors, expected, strict=True))
    # In the tutorials' loss torch adds up the same numbers in another order.
    assert torch.stack(losses).tolist() == pytest.approx(torch.stack(expected_losses).tolist(), rel=1e-6)
    torch.manual_seed(0)
    start = strategy_models.Recipe(kind=kind).model().state_dict().values()
    assert max(float((one - other).abs().max()) for one, other in zip(tensors, start, strict=True)) > 1e-3


def profiled(process: Process) -> None:
    losses, _ = ours(process, "conv", 0.0)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        again, _ = ours(process, "conv", 0.0)
    assert torch.equal(torch.stack(losses), torch.stack(again))
    names = {event.key for event in profiler.key_averages()}
    assert "DistributedDataParallel.forward" in names and any(name.startswith("Optimizer.step#") for name in names)


@pytest.mark.slow
def test_a_profiler_sees_what_is_left_out_where_none_looks(pooled: Any) -> None:
    pooled(2, profiled)


@pytest.mark.slow_cases("transformer-0.0", "batchnorm-0.3", "batchnorm-0.0", "conv-0.3")
@pytest.mark.parametrize("clip", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["conv", "batchnorm", "transformer"])
def test_it_is_bit_for_bit_the_loop_written_by_hand(kind: str, clip: float, pooled: Any) -> None:
    pooled(2, both, kind, clip)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"static_graph": True, "bucket_mb": 0.001},
        {"find_unused_parameters": True, "gradient_as_bucket_view": False},
    ],
    ids=str,
)
def test_options_that_do_not_change_results(options: dict[str, Any], pooled: Any) -> None:
    settings = [SETTING, replace(SETTING, accumulation=3)]
    expected = pooled(1, fit_each, ALONE, settings)[0]
    for trained, exact in zip(pooled(2, fit_each, Run("ddp", 2, options), settings)[0], expected, strict=True):
        assert difference(trained, exact) < 1e-10, worst(trained, exact)


@pytest.mark.slow_cases("fp16")
@pytest.mark.parametrize("hook", ["fp16", "bf16"])
def test_rounded_gradients_stay_close(hook: str, pooled: Any) -> None:
    """What is rounded are gradients, not their weights: uneven parts still count as their samples do."""
    setting = replace(SETTING, optimizer="sgd", learning_rate=0.1, ema_decay=0.0)
    (exact,) = pooled(1, fit, ALONE, setting)
    trained = pooled(2, fit, Run("ddp", 2, {"communication_hook": hook}), setting)[0]
    assert 1e-6 < difference(trained, exact) < (1e-3 if hook == "fp16" else 1e-2)


def count_exchanges(process: Process, accumulation: int) -> tuple[int, int]:
    """Buckets and numbers that travelled in three steps."""
    travelled = []

    def counting(dtype, bucket):  # without annotations, which torch would hold against its own types
        travelled.append(bucket.buffer().numel())
        return right(dtype, bucket)

    right = ddp.average_rounded
    ddp.average_rounded = counting  # in the forked rank only
    run = Run("ddp", 2, {"communication_hook": "fp16"})
    strategy = build(process, run, Setting(kind="conv", accumulation=accumulation))
    batch = batches(process, "conv")[0].to(process.device, torch.float64)
    strategy.train_step(batch, num_samples=16, num_global_samples=32)
    travelled.clear()  # the buckets are settled now
    for _ in range(3):
        strategy.train_step(batch, num_samples=16, num_global_samples=32)
    return len(travelled), sum(travelled)


def test_accumulated_pieces_travel_once(forked: Any) -> None:
    assert forked(2, count_exchanges, 4) == forked(2, count_exchanges, 1)
    assert forked(2, count_exchanges, 4)[0][0] == 3


def buckets_and_wrapper(process: Process, options: dict[str, Any]) -> tuple[int, int, dict[str, bool]]:
    """Into how many buckets the gradients went, what the largest held, and what the wrapper was told."""
    sizes: list[int] = []

    def counting(dtype, bucket):  # without annotations, which torch would hold against its own types
        sizes.append(bucket.buffer().nbytes)
        return right(dtype, bucket)

    right = ddp.average_rounded
    ddp.average_rounded = counting  # in the forked rank only
    strategy = build(process, Run("ddp", 2, options | {"communication_hook": "fp16"}), Setting(kind="transformer"))
    batch = batches(process, "transformer")[0]
    strategy.train_step(batch, num_samples=16, num_global_samples=32)
    sizes.clear()  # the buckets are settled now
    strategy.train_step(batch, num_samples=16, num_global_samples=32)
    names = ("static_graph", "find_unused_parameters", "gradient_as_bucket_view")
    return len(sizes), max(sizes), {name: getattr(strategy.module, name) for name in names}


def test_options_reach_the_wrapper(forked: Any) -> None:
    expected = {"static_graph": False, "find_unused_parameters": False, "gradient_as_bucket_view": True}
    for option in ({}, {"static_graph": True}, {"find_unused_parameters": True}, {"gradient_as_bucket_view": False}):
        assert forked(2, buckets_and_wrapper, option)[0][2] == expected | option
    count, largest, _ = forked(2, buckets_and_wrapper, {})[0]
    assert count == 1
    limited, largest_limited, _ = forked(2, buckets_and_wrapper, {"bucket_mb": 0.002})[0]
    assert limited > 2 and largest_limited < largest / 2


class TwoWays(nn.Module):
    """Positive samples go through one layer, negative ones through the other."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.one(inputs) if inputs.sum() > 0 else self.other(inputs)


@dataclass(frozen=True, kw_only=True)
class TwoWaysRecipe(strategy_models.Recipe):
    def model(self) -> nn.Module:
        return TwoWays()


def train_two_ways(process: Process, options: dict[str, Any]) -> dict[str, Any]:
    """Rank 0 uses one layer and rank 1 the other, in turns."""
    found, built = load_strategy("ddp", options)
    recipe = TwoWaysRecipe(optimizer_kind="sgd")
    torch.manual_seed(0)
    common = told(learning_rate=0.1, precision="fp64")
    strategy = found(recipe, recipe.model(), process, common, built)
    for step in range(4):
        sign = 1.0 if (process.rank + step) % 2 == 0 else -1.0
        batch = Batch(torch.full((2, 4), sign, dtype=torch.float64), torch.tensor([0, 1]))
        strategy.train_step(batch, num_samples=2, num_global_samples=2 * process.world_size)
    return {name: tensor.numpy().copy() for name, tensor in strategy.model.state_dict().items()}


def test_layers_that_some_ranks_do_not_use(forked: Any) -> None:
    first, second = forked(2, train_two_ways, {"find_unused_parameters": True})
    for name, values in first.items():
        assert np.array_equal(values, second[name])
    torch.manual_seed(0)
    model = TwoWays().double()  # by hand: each layer sees half of the samples in every step
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.0)
    for _ in range(4):
        optimizer.zero_grad()
        inputs = torch.ones(2, 4, dtype=torch.float64)
        outputs = torch.cat([model.one(inputs), model.other(-inputs)])
        functional.cross_entropy(outputs, torch.tensor([0, 1, 0, 1])).backward()
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                assert parameter.grad is not None
                parameter.grad *= 0.5  # the recipe's learning rate for vectors
        optimizer.step()
    for name, tensor in model.state_dict().items():
        np.testing.assert_allclose(first[name], tensor.numpy(), rtol=0, atol=1e-14)
    with pytest.raises(AssertionError) as caught:
        forked(2, train_two_ways, {})
    said = str(caught.value)
    assert re.search(r"InputError: .* some parameters .* got no gradient \((one|other)\.weight, \1\.bias\)", said)
    assert '{"find_unused_parameters": true} in strategy_options' in said


def test_ranks_without_a_sample_take_part(pooled: Any) -> None:
    """What torch's Join is for. The last batch of an epoch has one sample: three of four ranks have none."""
    (exact,) = pooled(1, fit, ALONE, SETTING)
    trained = pooled(4, fit, Run("ddp", 4), replace(SETTING, accumulation=2))[0]
    assert difference(trained, exact) < 1e-10, worst(trained, exact)
