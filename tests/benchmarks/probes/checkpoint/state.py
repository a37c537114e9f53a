"""What is saved: the state of a real training with FSDP, of which each rank holds an equal part."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

from drivetrain.training.config import Config
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy
from drivetrain.training.torch.checkpoints.state import tensors_of
from drivetrain.training.torch.parallel.sharded import local
from drivetrain.training.torch.strategy import Strategy

WIDTH, SAMPLES = 2048, 4
# Parameters and the two moments of AdamW, in float32.
BYTES_OF_A_LAYER = 3 * 4 * WIDTH * (WIDTH + 1)


class Layers:
    """The recipe of a stack of linear layers with about `megabytes` of training state."""

    columns = ()
    num_classes = None

    def __init__(self, megabytes: float) -> None:
        self.layers = max(1, round(megabytes * 1e6 / BYTES_OF_A_LAYER))

    def model(self) -> nn.Module:
        return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(self.layers)))

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().mean(dim=1)

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=weight_decay)


class Training:
    """`megabytes` of state on each rank, and steps that change it.

    Args:
        begun: it has taken a step, so that the optimizer has its moments.
    """

    def __init__(self, process: Process, megabytes: float, *, begun: bool = True) -> None:
        self.process = process
        recipe: Any = Layers(megabytes * process.world_size)
        kind, options = load_strategy("fsdp" if process.world_size > 1 else "single", {})
        torch.manual_seed(0)
        self.strategy: Strategy = kind(recipe, recipe.model(), process, Config(recipe="", learning_rate=1e-4), options)
        device = process.device
        self._batch = Batch(torch.randn(SAMPLES, WIDTH, device=device), torch.randn(SAMPLES, WIDTH, device=device))
        if begun:
            self.steps(1)

    def steps(self, count: int) -> float:
        """The seconds that these steps take."""
        began = self.now()
        total = SAMPLES * self.process.world_size
        for _ in range(count):
            self.strategy.train_step(self._batch, num_samples=SAMPLES, num_global_samples=total)
        return self.now() - began

    def now(self) -> float:
        """When all that this rank's device was told is done."""
        if self.process.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def own(self) -> dict[str, Tensor]:
        """This rank's part of each parameter and moment."""
        return {name: local(tensor.detach()) for name, tensor in tensors_of(self.strategy, None).items()}
