"""What it costs to watch a training: blocks of steps with what watches it and without, in pairs, in an order by lot.

    python health.py MODEL LEAST MOST WAY

WAY: drivetrain (the health rules at their defaults); every 50 steps what others keep of weights and gradients:
tensorboard (histograms), smdebug (the hook of SageMaker Debugger), wandb (`watch`, offline).

Prints JSON: "cpu" and "wall", the watched steps' seconds over those of the others, and the 95 % interval of it (pairs
drawn again); "pairs"; "step", CPU seconds of an unwatched one; "same", whether the losses of an unwatched and of a
watched training are the same to the bit. From LEAST pairs on it ends as soon as the interval of the CPU time is
narrower than 0.8 percentage points.

Two models lie elsewhere in memory, which makes a per cent. So our pairs are steps of one training, which is watched or
not; hooks of smdebug and W&B stay in their model, so that they have one of their own. The health rules go by the clock,
which stands still in blocks that they do not see.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import own_time  # first: it changes the clocks that the others read
import torch
from torch import Tensor, nn
from torch.nn import functional

from drivetrain.training.config import Config
from drivetrain.training.health.opening import NoHealth, open_health
from drivetrain.training.loop.journal import Journal
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy

STEPS, ROWS, EVERY = 5, 64, 50
# Records with tensors of the first steps, which are taken whatever they cost; later ones make up for them.
FIRST_RECORDS = 4
COMPARED_STEPS = 60
WIDTH, LOOK_EVERY, DRAWS = 0.008, 20, 2000
OURS = "drivetrain"
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
    """Of one model; `is_watched` is switched between steps, where what watches it can be.

    Args:
        way: what watches it, or "none".
    """

    def __init__(self, kind: str, way: str, folder: Path) -> None:
        config = Config(recipe="", learning_rate=1e-5, health=way == OURS)
        process, recipe = Process(0, 1, 0, 1, torch.device("cpu")), Recipe(kind)
        torch.manual_seed(0)
        made, options = load_strategy("single", {})
        self.strategy: Any = made(recipe, recipe.model(), process, config, options)
        self.strategy.model.train()
        self.width = next(self.strategy.model.parameters()).shape[1]
        journal = Journal(process, None, epochs=1, total_steps=1)
        self.health = open_health(config, self.strategy, process, folder, journal, recipe)
        self.health.begin(0)
        self._watcher, self._unwatched = self.strategy.watcher, NoHealth()
        self.is_watched = True
        # (The health rules count the steps that they see.)
        self.step = self.watched_steps = 0
        self.losses = list[float]()
        self._after_step = ELSEWHERE[way](self.strategy.model, folder) if way in ELSEWHERE else _nothing

    @property
    def records(self) -> int:
        """With tensors."""
        return self.health.summary.as_json(0.0)["records"]["tensors"]

    def go_on(self, steps: int = STEPS) -> tuple[float, float]:
        """Seconds of CPU time of this thread, and by the clock."""
        with nullcontext() if self.is_watched else own_time.standing_still():
            return self._go_on(steps)

    def _go_on(self, steps: int) -> tuple[float, float]:
        generator = torch.Generator().manual_seed(self.step)
        inputs = torch.randn(steps, ROWS, self.width, generator=generator)
        targets = torch.randint(10, (steps, ROWS), generator=generator)
        batches = [Batch(x, y) for x, y in zip(inputs, targets, strict=True)]
        watched, health = self.is_watched, self.health if self.is_watched else self._unwatched
        self.strategy.watcher = self._watcher if watched else None
        cpu, wall = time.thread_time(), own_time.true_time()
        for batch in health.timed(batches):
            self.step += 1
            self.watched_steps += watched
            if self.watched_steps >= health.due:
                health.before_step(self.watched_steps)
            result = self.strategy.train_step(batch, num_samples=ROWS, num_global_samples=ROWS)
            self.losses.append(float(result.loss))
            health.took(
                self.watched_steps, self.losses[-1], batch, consumed=ROWS * self.step, num_samples=ROWS, weight=ROWS,
                learning_rate=1e-5, factor=1.0,
            )  # fmt: skip
            if watched:
                self._after_step(self.step, self.losses[-1])
        return time.thread_time() - cpu, own_time.true_time() - wall


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


def ratio(pairs: Any) -> list[float]:
    """Of the sums, with the ends of its 95 % interval; `pairs` [n, 2] of unwatched and watched seconds."""
    drawn = np.random.default_rng(0).integers(0, len(pairs), (DRAWS, len(pairs)))
    sums = pairs[drawn].sum(axis=1)
    low, high = np.percentile(sums[:, 1] / sums[:, 0], [2.5, 97.5])
    return [float(pairs[:, 1].sum() / pairs[:, 0].sum()), float(low), float(high)]


def main() -> None:
    kind, least, most, way = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    lot = random.Random(0)
    taken: list[list[tuple[float, float]]] = []
    with tempfile.TemporaryDirectory() as temporary:
        unwatched = Training(kind, "none", Path(temporary) / "none")
        watched = Training(kind, way, Path(temporary) / way)
        for training in (unwatched, watched):
            training.go_on(COMPARED_STEPS)
        same = unwatched.losses == watched.losses
        if way == OURS:
            unwatched = watched
            while watched.records <= FIRST_RECORDS:
                watched.go_on()
        while len(taken) < most:
            pair: dict[bool, tuple[float, float]] = {}
            for is_watched in lot.sample((False, True), 2):
                training = watched if is_watched else unwatched
                training.is_watched = is_watched
                pair[is_watched] = training.go_on()
            taken.append([pair[False], pair[True]])
            if len(taken) >= least and len(taken) % LOOK_EVERY == 0:
                _, low, high = ratio(np.array(taken)[:, :, 0])
                if high - low < WIDTH:
                    break
    seconds = np.array(taken)  # [pairs, unwatched or watched, CPU or wall]
    found = {"cpu": ratio(seconds[:, :, 0]), "wall": ratio(seconds[:, :, 1]), "pairs": len(seconds), "same": same}
    print(json.dumps(found | {"step": float(seconds[:, 0, 0].mean()) / STEPS}))


if __name__ == "__main__":
    main()
