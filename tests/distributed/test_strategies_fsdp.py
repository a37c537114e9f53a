"""What is particular to fsdp and hsdp: their options, what travels, and models whose layers share parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import CPUOffloadPolicy
from torch.distributed.tensor import DTensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy
from drivetrain.training.torch import gathering as state
from drivetrain.training_scripts.strategies import fsdp
from tests.distributed import strategy_models
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import Setting, build, difference, fit_each, worst
from tests.fixtures.told import told

ALONE = Run("single", 1)
SETTING = Setting(kind="transformer", clip_norm=0.3, ema_decay=0.8, steps=6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"reshard_after_forward": False, "prefetch": 2},
        {"cpu_offload": True, "prefetch": 1},
    ],
    ids=str,
)
def test_options_that_do_not_change_results(options: dict[str, Any], pooled: Any) -> None:
    settings = [replace(SETTING, accumulation=2)]
    (expected,) = pooled(1, fit_each, ALONE, settings)[0]
    (trained,) = pooled(2, fit_each, Run("fsdp", 2, options), settings)[0]
    assert difference(trained, expected) < 1e-10, worst(trained, expected)


def where_the_slices_are(process: Process, options: dict[str, Any]) -> tuple[bool, list[list[int]], list[list[int]]]:
    """Whether torch was told to keep slices in the host's memory; how far each layer fetches ahead, both ways."""
    strategy = build(process, Run("fsdp", 2, options), Setting(kind="conv"))
    assert isinstance(strategy, fsdp.Strategy)
    *layers, _ = strategy.sharded
    states = [layer._get_fsdp_state() for layer in layers]
    numbers = {id(state): number for number, state in enumerate(states)}
    offloaded = all(isinstance(g.offload_policy, CPUOffloadPolicy) for s in states for g in s._fsdp_param_groups)
    forward = [[numbers[id(each)] for each in state._states_to_forward_prefetch] for state in states]
    backward = [[numbers[id(each)] for each in state._states_to_backward_prefetch] for state in states]
    return offloaded, forward, backward


@pytest.mark.slow
def test_offloading_and_fetching_ahead_reach_torch(pooled: Any) -> None:
    nothing: list[list[int]] = [[]] * 4
    assert pooled(2, where_the_slices_are, {})[0] == (False, nothing, nothing)
    offloaded, forward, backward = pooled(2, where_the_slices_are, {"cpu_offload": True, "prefetch": 2})[0]
    assert offloaded
    assert forward == [[1, 2], [2, 3], [3], []]
    assert backward == [[], [0], [1, 0], [2, 1]]


class Listening(TorchDispatchMode):
    """Hears in which formats gradients are sent."""

    def __init__(self) -> None:
        super().__init__()
        self.formats: list[torch.dtype] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "reduce_scatter" in str(func):
            self.formats.append(next(each.dtype for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)))
        return func(*args, **(kwargs or {}))


def slices_and_formats(process: Process) -> tuple[float, set[torch.dtype], set[torch.dtype], set[torch.dtype]]:
    """The share of the parameters that this rank holds; formats of what is held, fetched and multiplied, sent back."""
    fetched = set()
    strategy = build(process, Run("fsdp", 2), Setting(kind="transformer", precision="bf16"))
    held = {parameter.dtype for parameter in strategy.parameters.values()}
    numbers = [sum(p.to_local().numel() if own else p.numel() for p in strategy.parameters.values()) for own in (1, 0)]

    def look(layer: nn.Module, _: Any) -> None:
        fetched.update(parameter.dtype for parameter in layer.parameters())

    for layer in fsdp.layers_to_shard(strategy.model):
        layer.register_forward_pre_hook(look)
    samples = strategy_models.Recipe(kind="transformer").samples(4)
    with Listening() as heard:
        strategy.train_step(samples, num_samples=4, num_global_samples=8)
    sent = set(heard.formats)
    assert all(isinstance(parameter, DTensor) for parameter in strategy.parameters.values())
    return numbers[0] / numbers[1], held, fetched, sent


def test_a_rank_holds_a_slice_and_half_precision_travels(pooled: Any) -> None:
    answers = pooled(2, slices_and_formats)
    assert sum(share for share, *_ in answers) == pytest.approx(1.0)
    for share, held, fetched, sent in answers:
        assert 0.4 < share < 0.6
        assert (held, fetched, sent) == ({torch.float32}, {torch.bfloat16}, {torch.float32})


def count_exchanges(process: Process, run: Run, accumulation: int) -> int:
    strategy = build(process, run, Setting(kind="conv", accumulation=accumulation))
    samples = strategy_models.Recipe(kind="conv").samples(12)
    with Listening() as heard:
        strategy.train_step(samples, num_samples=12, num_global_samples=12 * process.world_size)
    return len(heard.formats)


def test_accumulated_pieces_travel_once(pooled: Any) -> None:
    once = pooled(2, count_exchanges, Run("fsdp", 2), 1)
    assert once == [4, 4]  # one for each layer with parameters
    assert pooled(2, count_exchanges, Run("fsdp", 2), 3) == once


class OwnNorm(nn.Module):
    """A batch normalization that is none of torch's, as recipes have it for statistics that stay."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))
        self.register_buffer("running_mean", torch.zeros(3))
        self.register_buffer("running_var", torch.ones(3))

    def forward(self, inputs: Tensor) -> Tensor:
        assert self.weight.dtype == torch.float32
        return functional.batch_norm(inputs, self.running_mean, self.running_var, self.weight, self.bias)


@dataclass(frozen=True, kw_only=True)
class OwnNormRecipe(strategy_models.Recipe):
    def model(self) -> nn.Module:
        block = nn.Sequential(nn.Conv2d(1, 3, kernel_size=3), OwnNorm(), nn.Flatten())
        return nn.Sequential(block, nn.Linear(3 * (strategy_models.SIDE - 2) ** 2, strategy_models.CLASSES))


def train_with_own_norm(process: Process, name: str) -> list[float]:
    recipe = OwnNormRecipe()
    found, options = load_strategy(name, {})
    torch.manual_seed(0)
    strategy = found(recipe, recipe.model(), process, told(learning_rate=0.05, precision="bf16"), options)
    batch = recipe.samples(8, seed=process.rank).to(process.device, torch.float32)
    steps = [strategy.train_step(batch, num_samples=8, num_global_samples=16) for _ in range(4)]
    return [float(process.sum(step.loss)) for step in steps]


@pytest.mark.slow
def test_running_statistics_of_other_kinds_stay_exact_too(pooled: Any) -> None:
    sharded, replicated = (pooled(2, train_with_own_norm, name)[0] for name in ("fsdp", "ddp"))
    assert sharded == pytest.approx(replicated, rel=0.02)
    assert sharded[-1] < sharded[0]


class Tied(nn.Module):
    """The last layer's matrix is the first one's."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(strategy_models.VOCABULARY, strategy_models.WIDTH)
        self.between = nn.Linear(strategy_models.WIDTH, strategy_models.WIDTH)
        self.head = nn.Linear(strategy_models.WIDTH, strategy_models.VOCABULARY)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.between(self.embedding(tokens)))


@dataclass(frozen=True, kw_only=True)
class TiedRecipe(strategy_models.Recipe):
    kind: str = "transformer"

    def model(self) -> nn.Module:
        return Tied()


def train_tied(process: Process, name: str) -> tuple[list[float], dict[str, Any]]:
    recipe = TiedRecipe()
    found, options = load_strategy(name, {})
    torch.manual_seed(0)
    strategy = found(recipe, recipe.model(), process, told(learning_rate=1e-2, precision="fp64"), options)
    samples = recipe.samples(8)
    rows = slice(8 * process.rank // process.world_size, 8 * (process.rank + 1) // process.world_size)
    losses = []
    for _ in range(5):
        batch = Batch(samples.inputs[rows], samples.targets[rows])
        step = strategy.train_step(batch, num_samples=len(batch.targets), num_global_samples=8)
        losses.append(float(process.sum(step.loss)))
    return losses, {name: tensor.numpy() for name, tensor in state.gather_model(strategy).items()}


def test_a_parameter_that_two_layers_share(pooled: Any) -> None:
    ((expected, weights),) = pooled(1, train_tied, "single")
    (losses, found), (_, elsewhere) = pooled(2, train_tied, "fsdp")
    assert losses == pytest.approx(expected, rel=0, abs=1e-10)
    for name, values in weights.items():
        assert found[name] == pytest.approx(values, rel=0, abs=1e-10)
    assert elsewhere == {}  # one copy is enough
    assert (weights["embedding.weight"] == weights["head.weight"]).all()


def train_with_and_without_evaluation(process: Process, options: dict[str, Any]) -> list[list[float]]:
    """Losses of four steps, of a training that is evaluated after the second one and of one that is not."""
    found: list[list[float]] = []
    for evaluated in (True, False):
        run = Run("fsdp", 2, options)
        strategy = build(process, run, Setting(kind="transformer", ema_decay=0.99, learning_rate=0.05))
        batch = strategy_models.Recipe(kind="transformer").samples(4, seed=process.rank)
        losses = []
        for step in range(4):
            losses.append(float(strategy.train_step(batch, num_samples=4, num_global_samples=8).loss))
            if evaluated and step == 1:
                strategy.model.eval()
                with strategy.in_evaluation(), torch.no_grad():
                    strategy.forward(batch.inputs)
                strategy.model.train()
        found.append(losses)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("reshard_after_forward", [True, False])
def test_training_continues_with_its_own_parameters_after_an_evaluation(
    reshard_after_forward: bool, pooled: Any
) -> None:
    """An evaluation computes with the average; layers that it left whole must not be trained on."""
    options = {"reshard_after_forward": reshard_after_forward}
    for evaluated, not_evaluated in pooled(2, train_with_and_without_evaluation, options):
        assert evaluated == not_evaluated


def where_slices_lie(process: Process, options: dict[str, Any]) -> list[str]:
    strategy = build(
        replace(process, local_rank=process.rank % 2, local_world_size=2), Run("hsdp", 4, options), Setting()
    )
    return strategy.layout.describe()


def test_hsdp_cuts_within_a_host_by_itself(pooled: Any) -> None:
    lines = ["4 ranks: replicate 2 x shard 2"]
    lines.append("  shards (slices of the same parameters, different samples): [0 1] [2 3]")
    lines.append("  replicas (same parameters, different samples): [0 2] [1 3]")
    assert pooled(4, where_slices_lie, {}) == [lines] * 4
    assert pooled(4, where_slices_lie, {"replicate": 4})[0][0] == "4 ranks: replicate 4 x shard 1"
