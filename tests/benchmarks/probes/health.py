"""What it costs to watch a training: steps of one model with the health rules at their defaults, without them, and with
what others keep of weights and gradients every 50 steps, a few steps each in turn.

    python health.py MODEL ROUNDS WAY [WAY ...]

WAY: none, drivetrain (the health rules), tensorboard (histograms), smdebug (the hook of SageMaker Debugger), wandb
(`watch`, offline).

Prints JSON: for each way its CPU seconds of each round, and whether the losses are the same to the bit.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from drivetrain.training.config import Config
from drivetrain.training.health.opening import open_health
from drivetrain.training.loop.journal import Journal
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy

STEPS, ROWS, EVERY = 25, 64, 50
MODELS: dict[str, Callable[[], nn.Module]] = {
    "10M parameters": lambda: _layers(1024, 10, 1024),
    "1,000 layers": lambda: _layers(32, 500, 32),  # and as many activations
}


def _layers(width: int, number: int, inputs: int) -> nn.Module:
    parts = [part for _ in range(number) for part in (nn.Linear(width, width), nn.ReLU())]
    for linear in parts[::2]:  # deep ones would put out nothing
        nn.init.orthogonal_(linear.weight, gain=1.4)  # type: ignore[arg-type]
    return nn.Sequential(*parts, nn.Linear(width, 10))


@dataclass(frozen=True)
class Recipe:
    kind: str
    columns: tuple[str, ...] = ()
    num_classes: int = 10

    def model(self) -> nn.Module:
        return MODELS[self.kind]()

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets, reduction="none")

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=weight_decay)


class Training:
    def __init__(self, kind: str, way: str, folder: Path) -> None:
        config = Config(recipe="", learning_rate=1e-5, health=way == "drivetrain")
        process, recipe = Process(0, 1, 0, 1, torch.device("cpu")), Recipe(kind)
        torch.manual_seed(0)
        made, options = load_strategy("single", {})
        self.strategy: Any = made(recipe, recipe.model(), process, config, options)
        self.strategy.model.train()
        self.width = next(self.strategy.model.parameters()).shape[1]
        journal = Journal(process, None, epochs=1, total_steps=1)
        self.health = open_health(config, self.strategy, process, folder, journal, recipe)
        self.health.begin(0)
        self.step, self.losses = 0, list[float]()
        self.watched_elsewhere = ELSEWHERE[way](self.strategy.model, folder) if way in ELSEWHERE else _nothing

    def go_on(self, steps: int) -> float:
        """CPU seconds."""
        generator = torch.Generator().manual_seed(self.step)
        inputs = torch.randn(steps, ROWS, self.width, generator=generator)
        targets = torch.randint(10, (steps, ROWS), generator=generator)
        batches = [Batch(x, y) for x, y in zip(inputs, targets, strict=True)]
        begun = time.process_time()
        for batch in self.health.timed(batches):
            self.step += 1
            self.health.before_step(self.step)
            result = self.strategy.train_step(batch, num_samples=ROWS, num_global_samples=ROWS)
            self.health.took(
                self.step, result.loss, batch, consumed=ROWS * self.step, num_samples=ROWS, weight=ROWS,
                learning_rate=1e-5, factor=1.0,
            )  # fmt: skip
            self.health.after_step(self.step)
            self.losses.append(float(result.loss))
            self.watched_elsewhere(self.step, self.losses[-1])
        return time.process_time() - begun


# Called after each step, with its number and loss.
AfterStep = Callable[[int, float], object]


def _nothing(step: int, loss: float) -> None:
    return None


def _tensorboard(model: nn.Module, folder: Path) -> AfterStep:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))

    def after_step(step: int, loss: float) -> None:
        if step % EVERY == 0:
            for name, parameter in model.named_parameters():
                writer.add_histogram(name, parameter, step)
                writer.add_histogram(f"{name}.grad", parameter.grad, step)

    return after_step


def _smdebug(model: nn.Module, folder: Path) -> AfterStep:
    """https://github.com/awslabs/sagemaker-debugger/blob/master/docs/pytorch.md"""
    import smdebug.pytorch as smd

    every = smd.SaveConfig(save_interval=EVERY)
    hook = smd.Hook(str(folder), save_config=every, include_collections=["weights", "biases", "gradients", "losses"])
    hook.register_module(model)
    return _nothing


def _wandb(model: nn.Module, folder: Path) -> AfterStep:
    """https://docs.wandb.ai/models/ref/python/experiments/run"""
    import wandb

    run = wandb.init(mode="offline", dir=str(folder.parent), settings=wandb.Settings(silent=True, x_disable_stats=True))
    run.watch(model, log="all", log_freq=EVERY)
    return lambda step, loss: run.log({"loss": loss})


ELSEWHERE: dict[str, Callable[[nn.Module, Path], AfterStep]] = {
    "tensorboard": _tensorboard,
    "smdebug": _smdebug,
    "wandb": _wandb,
}


def main() -> None:
    kind, rounds, *ways = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        trainings = {way: Training(kind, way, Path(temporary) / way) for way in ways}
        for training in trainings.values():
            training.go_on(10)  # the first steps allocate, and are recorded whatever it costs
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(rounds):
            for way in ways if number % 2 else reversed(ways):
                seconds[way].append(trainings[way].go_on(STEPS))
    same = trainings["none"].losses == trainings["drivetrain"].losses
    print(json.dumps({"seconds": seconds, "same": same, "steps": STEPS}))


if __name__ == "__main__":
    main()
