"""A recipe whose step takes a millisecond or two, and whose result depends on everything that a resume must restore.

Each row is its key, a whole number from 0: the input is made of it, and the target is it, so that whoever looks at a
step sees which samples it has. The model draws from every generator that there is.
"""

from __future__ import annotations

import random as generator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch

FEATURES = 16
CLASSES = 8


class Noise(nn.Module):
    """Scales its input by what Python's and NumPy's generators draw: a resume that forgets them differs."""

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training:
            return inputs
        return inputs * (1.0 + 0.05 * generator.random() + 0.05 * np.random.random())


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A perceptron, with one hidden layer a `layers`."""

    hidden: int = 64
    layers: int = 2
    random: bool = True
    """False leaves out what depends on how samples are dealt to ranks: dropout, noise, batch statistics."""

    @property
    def columns(self) -> tuple[str, ...]:
        return ("key",)

    @property
    def num_classes(self) -> int | None:
        return None

    def model(self) -> nn.Module:
        layers: list[nn.Module] = []
        width = FEATURES
        for _ in range(self.layers):
            layers += [nn.Linear(width, self.hidden)]
            if self.random:
                layers += [nn.BatchNorm1d(self.hidden), nn.Dropout(0.1), Noise()]
            layers += [nn.ReLU()]
            width = self.hidden
        return nn.Sequential(*layers, nn.Linear(width, CLASSES))

    def batch(self, columns: Columns, label: str) -> Batch:
        keys = columns["key"].astype(np.int64)
        angles = (keys[:, None] + 1) * np.arange(1, FEATURES + 1)[None, :] * 0.7
        return Batch(torch.from_numpy(np.sin(angles)).float(), torch.from_numpy(keys))

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, targets % CLASSES, reduction="none")

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": outputs.argmax(dim=1) == targets % CLASSES}

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        groups = [{"params": list(model.parameters())}]
        return torch.optim.AdamW(groups, lr=learning_rate, weight_decay=weight_decay)
