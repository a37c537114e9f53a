"""What every loop is given: the same batches, model, optimizer and learning rates, and a stop watch."""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from own_time import standing_still

from drivetrain.training.input_pipeline.cursor import Order, share
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.loader import Step
from drivetrain.training.process import Process
from drivetrain.training.recipe import Recipe, load_recipe
from drivetrain.training.torch.generators import seed_everything

GLOBAL_BATCH = 32
LEARNING_RATE, WEIGHT_DECAY = 3e-3, 1e-2
LOG_EVERY = 50
SEED = 0


# All loops go on at the same time, each by so many steps in its turn: a busy moment of the machine hits all alike.
SEGMENT = 10
# The first segments allocate and warm up.
SKIPPED = 4
# These loops are scheduled as our launcher does it (`give_way` in training/group/gloo.py), the others as torchrun does.
BATCH_MODE = ("drivetrain", "by hand in batch mode")


def schedule(name: str) -> None:
    """Schedule all threads of this process, gloo's too, as the loop `name` has it; on a GPU all loops are alike."""
    if torch.cuda.is_available():
        return
    policy = os.SCHED_BATCH if name in BATCH_MODE else os.SCHED_OTHER
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it has just ended
            os.sched_setscheduler(int(thread), policy, os.sched_param(0))


class Turns:
    """Lets one of several threads run at a time: all of them once, in an order by lot, then all of them again.

    The lot falls the same way on every rank: the loops talk to themselves across the ranks.
    """

    def __init__(self, names: Sequence[str], seed: int) -> None:
        self.random = random.Random(seed)
        self.names = sorted(names)
        self.coming: list[str] = []
        self.changed = threading.Condition()
        self._draw()

    def wait(self, name: str) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.coming[0] == name)
        schedule(name)

    def give_on(self) -> None:
        with self.changed:
            self.coming.pop(0)
            self._draw()
            self.changed.notify_all()

    def leave(self) -> None:
        self.names.remove(self.coming[0])
        self.give_on()

    def _draw(self) -> None:
        if not self.coming:
            self.coming = self.random.sample(self.names, len(self.names))


class Watch:
    """Hands out batches, and takes the time of every segment of steps.

    CPU seconds of this process with all its threads, of which only those of this loop have anything to do; on a GPU
    wall seconds, once it has done what it was given.
    """

    def __init__(self, steps: Sequence[Any], device: torch.device, name: str = "", turns: Turns | None = None) -> None:
        self.steps, self.device, self.name, self.turns = steps, device, name, turns
        self.segments: list[float] = []

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Any]:
        begun = self.now()
        for number, step in enumerate(self.steps):
            if self.turns and number % SEGMENT == 0:
                if number:
                    self.segments.append(self.now() - begun)
                    self.turns.give_on()
                    with standing_still():
                        self.turns.wait(self.name)
                begun = self.now()
            yield step

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            return time.perf_counter()
        return time.process_time()


@dataclass
class Work:
    """One training on this rank, by the loop `name`. `steps` are the rank's batches in memory."""

    process: Process
    recipe_name: str
    data: Path
    folder: Path
    name: str = ""
    turns: Turns | None = None
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.steps:
            return
        dataset = Dataset(self.data, self.recipe, self.process)
        order = Order(len(dataset), GLOBAL_BATCH, SEED)
        rank, size = self.process.rank, self.process.world_size
        for number in range(len(dataset) // GLOBAL_BATCH):
            indices = order.batch(number * GLOBAL_BATCH)
            own = share(indices, rank, size)
            batch = dataset.batch(own).to(self.process.device, torch.float32)
            self.steps.append(Step(number * GLOBAL_BATCH, own, batch, len(own), len(indices)))

    @property
    def recipe(self) -> Recipe:
        return load_recipe(self.recipe_name, {})

    def model(self) -> torch.nn.Module:
        seed_everything(SEED)
        return self.recipe.model().to(self.process.device)

    def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        return self.recipe.optimizer(model, learning_rate=LEARNING_RATE, weight_decay=WEIGHT_DECAY)

    def factor(self, step: int) -> float:
        """The share of the learning rate: a cosine down to 0."""
        return 0.5 * (1 + math.cos(math.pi * min(1.0, step / len(self.steps))))

    def watch(self, steps: Sequence[Any] = ()) -> Watch:
        given = steps or [(step.batch.inputs, step.batch.targets) for step in self.steps]
        return Watch(given, self.process.device, self.name, self.turns)
