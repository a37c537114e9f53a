"""A short training under any strategy, what came of it, and the comparison that all strategies are held to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from drivetrain.training.checkpointing.tensors.index import Index, TensorEntry
from drivetrain.training.checkpointing.tensors.writing import merge_values
from drivetrain.training.evaluation.run import evaluate
from drivetrain.training.input_pipeline.cursor import Order, share
from drivetrain.training.process import Process
from drivetrain.training.strategy import load_strategy
from drivetrain.training.torch import gathering as state
from drivetrain.training.torch.checkpoints import state as tensors
from drivetrain.training.torch.parallel.flat_slice import FlatSlice
from drivetrain.training.torch.parallel.sharded import local
from drivetrain.training.torch.strategy import Strategy
from tests.distributed.strategy_models import Memory, Recipe, recipe_of
from tests.distributed.strategy_runs import Run
from tests.fixtures.told import told

# 49 samples in batches of 16: 16, 16, 16, 1. With 2 ranks the first one has no sample of the batch of 1.
NUM_SAMPLES, GLOBAL_BATCH = 49, 16
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A training of `steps` steps (4 an epoch) from step `first` on."""

    kind: str = "conv"
    optimizer: str = "adamw"
    accumulation: int = 1
    precision: str = "fp64"
    clip_norm: float = 0.0
    ema_decay: float = 0.0
    steps: int = 8
    first: int = 0
    learning_rate: float = 2e-2
    start: Trained | None = None
    seed: int = 0
    common: dict[str, Any] = field(default_factory=dict)
    """Further common options."""


@dataclass(frozen=True)
class Trained:
    """What a training left. `losses`: the mean of each global batch. `norms`: of each gradient, before clipping."""

    losses: list[float]
    norms: list[float]
    evaluation: dict[str, float]
    model: Arrays
    optimizer: Arrays
    average: Arrays
    values: dict[str, Any]


def build(process: Process, run: Run, setting: Setting) -> Strategy:
    """The strategy of a run, its model as seeded."""
    recipe = recipe_of(setting.kind, setting.optimizer)
    common = told(
        learning_rate=setting.learning_rate,
        weight_decay=1e-2,
        precision=setting.precision,
        accumulation=setting.accumulation,
        clip_norm=setting.clip_norm,
        ema_decay=setting.ema_decay,
        **setting.common,
    )
    kind, options = load_strategy(run.strategy, run.options)
    torch.manual_seed(setting.seed)
    strategy = kind(recipe, recipe.model(), process, common, options)
    strategy.model.train()
    return strategy


def fit(process: Process, run: Run, setting: Setting) -> Trained:
    """Train as drivetrain.training_scripts.train does, in memory."""
    strategy = build(process, run, setting)
    if setting.start:
        start_from(setting.start, strategy)
    return go_on(strategy, setting)


def fit_in_halves(process: Process, run: Run, setting: Setting) -> tuple[Trained, Trained]:
    """`setting.steps` steps, and as many again in the same training, evaluated in between and at the end."""
    strategy = build(process, run, setting)
    half = go_on(strategy, setting)
    return half, go_on(strategy, replace(setting, first=setting.first + setting.steps))


def fit_each(process: Process, run: Run, settings: list[Setting]) -> list[Trained]:
    """Several trainings, one after the other."""
    return [fit(process, run, setting) for setting in settings]


def go_on(strategy: Strategy, setting: Setting) -> Trained:
    """Train `strategy` and tell what came of it."""
    recipe, layout, process = strategy.recipe, strategy.layout, strategy.process
    assert isinstance(recipe, Recipe)
    data = Memory(recipe, recipe.samples(NUM_SAMPLES))
    order = Order(NUM_SAMPLES, GLOBAL_BATCH, seed=3)
    losses, norms = [], []
    for step in range(setting.first, setting.first + setting.steps):
        epoch, within = divmod(step, order.steps_per_epoch)
        indices = order.batch(epoch * NUM_SAMPLES + within * GLOBAL_BATCH)
        own = share(indices, layout.data_rank, layout.data_size)
        batch = data.batch(own if len(own) else indices[:1]).to(process.device, strategy.precision.parameters)
        torch.manual_seed(1000 * step + layout.data_rank)  # for dropout: each replica draws its own, at any step
        taken = strategy.train_step(batch, num_samples=len(own), num_global_samples=len(indices))
        weight = len(indices) if taken.weight is None else float(taken.weight)
        losses.append(float(process.sum(taken.loss)) / weight)
        if taken.gradient_norm is not None:
            norms.append(float(taken.gradient_norm))

    strategy.model.eval()
    held_out = Memory(recipe, recipe.samples(23, seed=1))
    with strategy.in_evaluation():
        precision = strategy.precision.parameters
        evaluated = evaluate(
            strategy.forward,
            held_out,  # type: ignore[arg-type]
            layout,
            framework=strategy.framework,
            batch_size=8,
            precision=precision,
        )
    strategy.model.train()
    assert evaluated.num_samples == 23
    return Trained(losses, norms, evaluated.means, *whole_state(strategy))


def whole_state(strategy: Strategy) -> tuple[Arrays, Arrays, Arrays, dict[str, Any]]:
    """Model, optimizer and average of all ranks together, on rank 0; and what is no tensor. Every rank must call it."""
    whole = state.gather(strategy, tensors.tensors_of(strategy))
    groups = [
        {name.removeprefix(prefix): tensor.numpy() for name, tensor in whole.items() if name.startswith(prefix)}
        for prefix in (tensors.MODEL, tensors.OPTIMIZER, tensors.AVERAGE)
    ]
    own = tensors.values_of(strategy) if tensors.speaks_for_stage(strategy) else None
    stages = [values for values in strategy.process.group.gather_json(own) if values]
    return groups[0], groups[1], groups[2], merge_values(stages)


def start_from(trained: Trained, strategy: Strategy) -> None:
    """Put the whole state of another training, perhaps under another strategy, into this one."""
    groups = {
        tensors.MODEL: trained.model,
        tensors.OPTIMIZER: trained.optimizer,
        tensors.AVERAGE: trained.average,
    }
    arrays = {prefix + name: array for prefix, group in groups.items() for name, array in group.items()}
    index = Index({name: TensorEntry(str(array.dtype), array.shape, ()) for name, array in arrays.items()})
    targets = tensors.targets(strategy, index)
    for name, tensor in targets.items():
        fill(tensor, torch.from_numpy(arrays[name].copy()))
    tensors.adopt(strategy, targets, trained.values)


def difference(one: Trained, other: Trained) -> float:
    """The greatest difference of any number; infinite where something is there in only one of them, or not finite."""
    return max(differences(one, other).values())


def differences(one: Trained, other: Trained) -> dict[str, float]:
    """By name. Left out is the optimizer's own state, which is no result of a training."""
    found: dict[str, float] = {}
    for (name, first), (other_name, second) in zip(_results(one), _results(other), strict=False):
        comparable = name == other_name and first.shape == second.shape and first.dtype == second.dtype
        distance = np.abs(first.astype(np.float64) - second.astype(np.float64)) if comparable else np.array(np.inf)
        found[name] = float(np.nan_to_num(distance, nan=np.inf).max(initial=0.0))
    if len(_results(one)) != len(_results(other)):
        found["number of results"] = float("inf")
    return found


def worst(one: Trained, other: Trained, shown: int = 5) -> str:
    """The greatest differences as text."""
    ranking = sorted(differences(one, other).items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {distance:.3g}" for name, distance in ranking[:shown])


def _results(trained: Trained) -> list[tuple[str, NDArray[Any]]]:
    groups = {"model": trained.model, "average": trained.average}
    return [
        ("losses", np.array(trained.losses)),
        ("norms", np.array(trained.norms)),
        *((f"evaluation {name}", np.array(value)) for name, value in sorted(trained.evaluation.items())),
        *((f"{group} {name}", arrays[name]) for group, arrays in groups.items() for name in sorted(arrays)),
    ]


def identical(one: Trained, other: Trained) -> bool:
    """Bit for bit, the optimizer's state and all."""
    same = one.losses == other.losses and one.norms == other.norms and one.evaluation == other.evaluation
    groups = ((one.model, other.model), (one.optimizer, other.optimizer), (one.average, other.average))
    return (
        same
        and one.values == other.values
        and all(
            first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)
            for first, second in groups
        )
    )


@torch.no_grad()
def fill(tensor: Tensor | FlatSlice, values: Tensor) -> None:
    """Overwrite it with `values`, the whole tensor, which every rank has."""
    if isinstance(tensor, FlatSlice):
        tensor.flat.copy_(values.reshape(-1)[tensor.start : tensor.start + tensor.flat.numel()])
        return
    if isinstance(tensor, DTensor):
        # src_data_rank=None: each rank cuts its own slice, nothing travels.
        values = distribute_tensor(
            values.to(tensor.device, tensor.dtype), tensor.device_mesh, tensor.placements, src_data_rank=None
        ).to_local()
    local(tensor).copy_(values)
