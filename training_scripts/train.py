"""Train a recipe on prepared data.

    python -m drivetrain.training_scripts.train --train build/train --model build/model --recipe digits_cnn
    python -m drivetrain.training_scripts.launch --processes 2 drivetrain.training_scripts.train --train build/train ...

A restarted run goes on from its newest checkpoint. The same training gives the same model, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import random
import signal
import time
from dataclasses import asdict, fields
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drivetrain.training_scripts import state
from drivetrain.training_scripts.checkpoint import CheckpointFolder, load_newest
from drivetrain.training_scripts.config import Config, Folders, parser, refuse_changes
from drivetrain.training_scripts.cursor import Order, share
from drivetrain.training_scripts.dataset import Dataset
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.evaluation import evaluate
from drivetrain.training_scripts.failure import run_rank
from drivetrain.training_scripts.options import parse_options
from drivetrain.training_scripts.parent import die_with_parent
from drivetrain.training_scripts.process import Process, join_group
from drivetrain.training_scripts.recipe import load_recipe, source_hash
from drivetrain.training_scripts.saved_model import save_model
from drivetrain.training_scripts.schedule import Schedule, scaled_learning_rate
from drivetrain.training_scripts.strategy import Common, Strategy, load_strategy
from drivetrain.training_scripts.watch import Watch

HISTORY_FILE = "history.json"
VALIDATION_BATCH = 512

__all__ = ["Config", "Folders", "main", "train"]


def train(config: Config, folders: Folders, process: Process) -> None:
    """Train on all processes together; rank 0 prints, keeps checkpoints and writes the model folder."""
    recipe = load_recipe(config.recipe, parse_options(config.recipe_options, "recipe"))
    strategy_class, options = load_strategy(config.strategy, parse_options(config.strategy_options, "strategy"))
    dataset = Dataset(folders.train, recipe, process)
    validation = Dataset(folders.validation, recipe, process) if folders.validation else None
    order = Order(len(dataset), config.global_batch, config.seed)

    seed_everything(config.seed)
    strategy = strategy_class(recipe, recipe.model(), process, common_options(config), options)
    if process.is_main:
        print(*strategy.layout.describe(), sep="\n", flush=True)
    schedule = build_schedule(config, order.steps_per_epoch)
    watch = Watch(config.monitor, config.early_stopping)
    step, consumed, history, best = 0, 0, [], None

    # New data or an edited recipe start afresh, a retry on the same ones goes on.
    training = f"{dataset.data.content_hash}-{source_hash(recipe)[:16]}"
    checkpoints = CheckpointFolder(folders.checkpoints / training) if folders.checkpoints else None
    if checkpoints and (found := load_newest(checkpoints, process)):
        saved, tensors = found
        refuse_changes(saved["config"], config, checkpoints.folder)
        step, consumed, history = saved["step"], saved["consumed"], saved["history"]
        watch.load_state(saved["watch"])
        best = tensors.get("best")
        groups = (tensors.get(name, {}) for name in ("model", "optimizer", "average"))
        state.scatter(state.State(*groups, saved["strategy"]), strategy)

    losses, unreported = MeanLoss(process), MeanLoss(process)
    started, since = time.monotonic(), consumed
    while step < schedule.total_steps and not watch.gives_up:
        epoch = consumed // len(dataset)
        if consumed % len(dataset) == 0:
            # Randomness, too, is a function of (seed, epoch, replica): there is no generator to save.
            seed_everything(config.seed, epoch, strategy.layout.data_rank)
            losses, started, since = MeanLoss(process), time.monotonic(), consumed
            strategy.model.train()
        indices = order.batch(consumed)
        own = share(indices, strategy.layout.data_rank, strategy.layout.data_size)
        batch = dataset.batch(own if len(own) else indices[:1]).to(process.device, strategy.precision.parameters)
        for group in strategy.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * schedule.factor(step)
        taken = strategy.train_step(batch, num_samples=len(own), num_global_samples=len(indices))
        losses.add(taken.loss, len(indices))
        unreported.add(taken.loss, len(indices))
        consumed += len(indices)
        step += 1

        ends_epoch, ends_training = consumed % len(dataset) == 0, step == schedule.total_steps
        if step == 1:
            refuse_infinite_loss(taken.loss, process)
        if step % config.log_every == 0 and not ends_epoch:
            report(process, epoch, config.epochs, step, {"train_loss": unreported.value()})
            unreported = MeanLoss(process)
        if step % config.validate_every == 0 if config.validate_every else ends_epoch or ends_training:
            metrics = {"train_loss": losses.value()} | (validate(strategy, validation) if validation else {})
            speed = (consumed - since) / (time.monotonic() - started)
            report(process, epoch, config.epochs, step, metrics | {"samples_per_second": round(speed, 1)})
            history.append({"epoch": epoch + 1, "step": step, **metrics})
            if validation and watch.improves(step, metrics) and config.keep_best:
                best = state.gather_model(strategy)
        if checkpoints and (ends_epoch or ends_training):
            whole = state.gather(strategy)
            if process.is_main:
                saved = {
                    "step": step,
                    "consumed": consumed,
                    "history": history,
                    "watch": watch.state(),
                    "config": asdict(config),
                    "world_size": process.world_size,
                    "strategy": whole.values,
                }
                tensors = {"model": whole.model, "optimizer": whole.optimizer, "average": whole.average}
                checkpoints.save(step, saved, **tensors, **({"best": best} if best else {}))

    weights = best or state.gather_model(strategy)
    if process.is_main:
        save_model(
            folders.model,
            weights,
            {
                "recipe": config.recipe,
                "recipe_options": parse_options(config.recipe_options, "recipe"),
                "precision": config.precision,
                "columns": list(recipe.columns),
                "label": dataset.label,
                "num_classes": recipe.num_classes,
                "input_statistics": dataset.statistics,
                "data": {"content_hash": dataset.data.content_hash, "rows": len(dataset)},
                "training": {**asdict(config), "world_size": process.world_size, "steps": step},
                "metrics": {name: value for name, value in history[-1].items() if name not in ("epoch", "step")},
                "versions": {
                    "python": platform.python_version(),
                    **{name: version(name) for name in ("torch", "numpy", "pyarrow", "safetensors")},
                },
            },
        )
        if folders.output:
            folders.output.mkdir(parents=True, exist_ok=True)
            (folders.output / HISTORY_FILE).write_text(json.dumps(history, indent=1) + "\n", encoding="utf-8")


def common_options(config: Config) -> Common:
    """What every strategy is told."""
    learning_rate = scaled_learning_rate(
        config.learning_rate, config.lr_scaling, global_batch=config.global_batch, base_batch=config.base_batch
    )
    same = {field.name: getattr(config, field.name) for field in fields(Common) if field.name != "learning_rate"}
    return Common(learning_rate=learning_rate, **same)


def build_schedule(config: Config, steps_per_epoch: int) -> Schedule:
    """The schedule in steps."""
    total_steps = config.epochs * steps_per_epoch
    return Schedule(
        kind=config.schedule,
        warmup_steps=round(config.warmup_epochs * steps_per_epoch),
        total_steps=min(total_steps, config.max_steps or total_steps),
        cycle_steps=max(1, round(config.cycle_epochs * steps_per_epoch)),
        cycle_growth=config.cycle_growth,
    )


def validate(strategy: Strategy, validation: Dataset) -> dict[str, float]:
    """The means over the validation data, on all ranks together, as `validation_<metric>`."""
    strategy.model.eval()
    with strategy.evaluated:
        result = evaluate(
            strategy.forward,
            validation,
            strategy.layout,
            batch_size=VALIDATION_BATCH,
            dtype=strategy.precision.parameters,
        )
    strategy.model.train()
    return {f"validation_{name}": value for name, value in result.means.items()}


class MeanLoss:
    """The mean loss a sample over all ranks. Sums stay on the device; only `value` waits for the other ranks."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.total = torch.zeros((), dtype=torch.float64, device=process.device)
        self.num_samples = 0

    def add(self, summed_loss: Tensor, num_global_samples: int) -> None:
        self.total += summed_loss
        self.num_samples += num_global_samples

    def value(self) -> float:
        return float(self.process.sum(self.total)) / self.num_samples


def refuse_infinite_loss(loss: Tensor, process: Process) -> None:
    """After the first step a loss that is not finite comes from the data or the recipe, not from divergence.

    Raises:
        InputError: naming the ranks. Every rank raises it.
    """
    finite = torch.ones(process.world_size)
    finite[process.rank] = float(loss.isfinite())
    wrong = [rank for rank, sum_ in enumerate(process.sum(finite)) if sum_ < process.world_size]
    if wrong:
        ranks = f"rank{'s' if len(wrong) > 1 else ''} {', '.join(str(rank) for rank in wrong)}"
        raise InputError(
            f"the loss of step 1 is not a finite number on {ranks} of {process.world_size}. Look for empty or infinite "
            "values in the data, or a loss of the recipe that divides by zero or takes the logarithm of it."
        )


def report(process: Process, epoch: int, epochs: int, step: int, metrics: dict[str, float]) -> None:
    """Print one line of progress on rank 0; the platforms read their curves from it (`logs` of components/train.py).

    Raises:
        InputError: a metric that is not finite. Every rank has the same value, so every rank stops here.
    """
    if process.is_main:
        values = " ".join(f"{name}={value:.6g}" for name, value in metrics.items())
        print(f"epoch {epoch + 1}/{epochs} step {step} {values}", flush=True)
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise InputError(
                f"{name} is {value} in epoch {epoch + 1} (step {step}): training diverged. "
                "Lower learning_rate, or look for extreme values in the data."
            )


def seed_everything(*key: int) -> None:
    """Seed the generators of Python, NumPy and torch (all devices) from `key`."""
    seed = int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big")
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def main() -> None:
    die_with_parent(signal.SIGKILL)
    given: dict[str, Any] = vars(parser("python -m drivetrain.training_scripts.train", __doc__).parse_args())

    def program() -> None:
        folders = Folders(**{field.name: given.pop(field.name) for field in fields(Folders)})
        config = Config(**given)
        with join_group() as process:
            train(config, folders, process)

    run_rank(program)


if __name__ == "__main__":
    main()
