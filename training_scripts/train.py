"""Train a recipe on prepared data.

    python -m drivetrain.training_scripts.train --train build/train --model build/model --recipe digits_cnn
    python -m drivetrain.training_scripts.launch --processes 2 drivetrain.training_scripts.train --train build/train ...

A restarted run goes on from its newest checkpoint. The same training gives the same model, byte for byte.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import platform
import random
import signal
import time
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drivetrain.training_scripts.checkpoint import CheckpointFolder, load_newest, pack_optimizer, unpack_optimizer
from drivetrain.training_scripts.cursor import Order, share
from drivetrain.training_scripts.dataset import Dataset
from drivetrain.training_scripts.errors import InputError, unknown_name
from drivetrain.training_scripts.evaluation import evaluate
from drivetrain.training_scripts.failure import run_rank
from drivetrain.training_scripts.parent import die_with_parent
from drivetrain.training_scripts.process import Process, join_group
from drivetrain.training_scripts.recipe import load_recipe, parse_options, source_hash
from drivetrain.training_scripts.saved_model import PRECISIONS, save_model
from drivetrain.training_scripts.strategy import load_strategy

HISTORY_FILE = "history.json"
VALIDATION_BATCH = 512


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is trained, and how. Everything but the fields of `MAY_CHANGE` is fixed for the life of a checkpoint."""

    recipe: str
    """A file of recipes/, or a module of the user's own."""
    recipe_options: str = "{}"
    """The recipe's options, a JSON object."""
    strategy: str = "ddp"
    """A file of strategies/."""
    epochs: int = 12
    """How often each sample is seen."""
    global_batch: int = 32
    """Samples a step, over all processes."""
    learning_rate: float = 3e-3
    """The highest learning rate: reached after the warm-up, then falling along a half cosine."""
    weight_decay: float = 1e-2
    """The optimizer's weight decay."""
    warmup_epochs: float = 1.0
    """Epochs over which the learning rate rises from 0."""
    seed: int = 0
    """Decides the start of the model and the order of the samples."""
    precision: str = "fp32"
    """fp32 or fp64."""
    log_every: int = 50
    """Steps between progress lines inside an epoch."""

    def __post_init__(self) -> None:
        for name in ("epochs", "global_batch", "log_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}; allowed are whole numbers from 1.")
        for name in ("weight_decay", "warmup_epochs"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name}={getattr(self, name)}; allowed are numbers from 0.")
        if not 0 < self.learning_rate < math.inf:
            raise InputError(f"learning_rate={self.learning_rate}; allowed are numbers above 0.")
        if self.precision not in PRECISIONS:
            raise unknown_name("precision", self.precision, PRECISIONS)


# A longer training may go on from a checkpoint of a shorter one.
MAY_CHANGE = ("epochs", "log_every")


@dataclass(frozen=True)
class Folders:
    """`validation`, `output` and `checkpoints` may be None: nothing is then validated, reported or kept."""

    train: Path
    model: Path
    validation: Path | None = None
    output: Path | None = None
    checkpoints: Path | None = None


def train(config: Config, folders: Folders, process: Process) -> None:
    """Train on all processes together; rank 0 prints, keeps checkpoints and writes the model folder."""
    recipe = load_recipe(config.recipe, parse_options(config.recipe_options))
    strategy_class = load_strategy(config.strategy)
    dataset = Dataset(folders.train, recipe, process)
    validation = Dataset(folders.validation, recipe, process) if folders.validation else None
    dtype = PRECISIONS[config.precision]

    seed_everything(config.seed)
    strategy = strategy_class(
        recipe,
        recipe.model().to(dtype),
        process,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
    )
    order = Order(len(dataset), config.global_batch, config.seed)
    total_steps = config.epochs * order.steps_per_epoch
    warmup_steps = round(config.warmup_epochs * order.steps_per_epoch)

    step, consumed, history = 0, 0, []
    # New data or an edited recipe start afresh, a retry on the same ones goes on.
    training = f"{dataset.data.content_hash}-{source_hash(recipe)[:16]}"
    checkpoints = CheckpointFolder(folders.checkpoints / training) if folders.checkpoints else None
    if checkpoints and (found := load_newest(checkpoints, process)):
        state, tensors = found
        refuse_changes(state["config"], config, checkpoints.folder)
        step, consumed, history = state["step"], state["consumed"], state["history"]
        strategy.model.load_state_dict(tensors["model"])
        unpack_optimizer(strategy.optimizer, state["optimizer"], tensors["optimizer"])

    while consumed < config.epochs * len(dataset):
        epoch = consumed // len(dataset)
        started, losses, unreported = time.monotonic(), MeanLoss(process), MeanLoss(process)
        # Randomness, too, is a function of (seed, epoch, rank): there is no generator to save.
        seed_everything(config.seed, epoch, process.rank)
        strategy.model.train()
        while consumed // len(dataset) == epoch:
            indices = order.batch(consumed)
            own = share(indices, process.rank, process.world_size)
            batch = dataset.batch(own if len(own) else indices[:1]).to(process.device, dtype)
            for group in strategy.optimizer.param_groups:
                group["lr"] = config.learning_rate * learning_rate_factor(step, warmup_steps, total_steps)
            loss = strategy.train_step(batch, num_samples=len(own), num_global_samples=len(indices))
            losses.add(loss, len(indices))
            unreported.add(loss, len(indices))
            consumed += len(indices)
            step += 1
            if step % config.log_every == 0 and consumed % len(dataset):
                report(process, epoch, config.epochs, step, {"train_loss": unreported.value()})
                unreported = MeanLoss(process)

        metrics = {"train_loss": losses.value()}
        if validation:
            means = evaluate(strategy.model, validation, process, batch_size=VALIDATION_BATCH).means
            metrics |= {f"validation_{name}": value for name, value in means.items()}
        speed = len(dataset) / (time.monotonic() - started)
        report(process, epoch, config.epochs, step, metrics | {"samples_per_second": round(speed, 1)})
        history.append({"epoch": epoch + 1, "step": step, **metrics})
        if checkpoints and process.is_main:
            optimizer_state, optimizer_tensors = pack_optimizer(strategy.optimizer)
            state = {
                "step": step,
                "consumed": consumed,
                "history": history,
                "config": asdict(config),
                "world_size": process.world_size,
                "optimizer": optimizer_state,
            }
            checkpoints.save(step, state, model=strategy.model.state_dict(), optimizer=optimizer_tensors)

    if process.is_main:
        save_model(
            folders.model,
            strategy.model,
            {
                "recipe": config.recipe,
                "recipe_options": parse_options(config.recipe_options),
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


class MeanLoss:
    """The mean loss a sample over all ranks. Sums stay on the device; only `value` waits for the other ranks."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.total = torch.zeros((), dtype=torch.float64, device=process.device)
        self.num_samples = 0

    def add(self, summed_loss: torch.Tensor, num_global_samples: int) -> None:
        self.total += summed_loss
        self.num_samples += num_global_samples

    def value(self) -> float:
        return float(self.process.sum(self.total)) / self.num_samples


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


def learning_rate_factor(step: int, warmup_steps: int, total_steps: int) -> float:
    """The share of the highest learning rate for `step` (from 0): linear warm-up, then half a cosine down to 0.

    I. Loshchilov and F. Hutter, "SGDR", ICLR 2017; P. Goyal et al., "Accurate, Large Minibatch SGD", 2017.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    return 0.5 * (1 + math.cos(math.pi * (step - warmup_steps) / max(1, total_steps - warmup_steps)))


def seed_everything(*key: int) -> None:
    """Seed the generators of Python, NumPy and torch (all devices) from `key`."""
    seed = int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big")
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def refuse_changes(saved: dict[str, Any], config: Config, folder: Path) -> None:
    """A checkpoint goes on only as what it was.

    Raises:
        InputError: naming the fields that differ.
    """
    now = asdict(config)
    changed = [name for name in now if name not in MAY_CHANGE and saved.get(name) != now[name]]
    if changed:
        was = ", ".join(f"{name} {saved.get(name)!r} -> {now[name]!r}" for name in changed)
        raise InputError(
            f"the checkpoints in {folder} are of another training ({was}). "
            "Give the old values, or another checkpoints folder to start afresh."
        )


def parser() -> argparse.ArgumentParser:
    """The command line: the folders, and every field of Config."""
    built = argparse.ArgumentParser(
        prog="python -m drivetrain.training_scripts.train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for field in fields(Folders):
        built.add_argument(f"--{field.name}", type=Path, required=field.name in ("train", "model"))
    types = {"str": str, "int": int, "float": float}
    for field in fields(Config):
        required = field.name == "recipe"
        built.add_argument(
            "--" + field.name.replace("_", "-"),
            type=types[str(field.type)],
            required=required,
            default=None if required else field.default,
        )
    return built


def main() -> None:
    die_with_parent(signal.SIGKILL)
    given = vars(parser().parse_args())

    def program() -> None:
        folders = Folders(**{field.name: given.pop(field.name) for field in fields(Folders)})
        config = Config(**given)
        with join_group() as process:
            train(config, folders, process)

    run_rank(program)


if __name__ == "__main__":
    main()
