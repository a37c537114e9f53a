"""A small convolutional network for 8x8 grey images of handwritten digits.

The data has one row an image: columns p0 to p63, the pixels row by row with values from 0 to 16, and a label from
0 to 9, as in scikit-learn's `load_digits` (1,797 images; E. Alpaydin and C. Kaynak, UCI repository, 1998).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from drivetrain.base.bounds import Bounds
from drivetrain.training.reader import Columns, matrix
from drivetrain.training.recipe import Batch

FRAMEWORK = "torch"
SIDE = 8
BRIGHTEST = 16.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Two convolutions, a pooling, a hidden layer. Nothing in it looks across samples (no batch normalization), so
    its gradients do not depend on how a batch is dealt to processes."""

    channels: Annotated[int, Bounds(1)] = 32
    """Feature maps of the first convolution; the second has twice as many."""
    hidden: Annotated[int, Bounds(1)] = 128
    """Units of the hidden layer."""
    num_classes: Annotated[int, Bounds(1)] = 10
    """Classes; labels are 0 to num_classes - 1."""
    label_smoothing: Annotated[float, Bounds(0, below=1)] = 0.1
    """Share of the target that is spread over all classes while training, against overconfidence."""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"p{i}" for i in range(SIDE * SIDE))

    def model(self) -> nn.Module:
        wide = 2 * self.channels
        return nn.Sequential(
            nn.Conv2d(1, self.channels, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(self.channels, wide, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(wide * (SIDE // 2) ** 2, self.hidden),
            nn.ReLU(),
            nn.Linear(self.hidden, self.num_classes),
        )

    def batch(self, columns: Columns, label: str) -> Batch:
        pixels = matrix(columns, self.columns).astype(np.float32) / BRIGHTEST
        targets = columns[label].astype(np.int64)
        return Batch(torch.from_numpy(pixels).view(-1, 1, SIDE, SIDE), torch.from_numpy(targets))

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # Smoothed where a gradient follows; what is reported of held-out data is the plain cross entropy.
        smoothing = self.label_smoothing if outputs.requires_grad else 0.0
        return functional.cross_entropy(outputs, targets, reduction="none", label_smoothing=smoothing)

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": outputs.argmax(dim=1) == targets}

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        # As a group, which may be empty: a stage of a pipeline may have no parameters.
        groups = [{"params": list(model.parameters())}]
        return torch.optim.AdamW(groups, lr=learning_rate, weight_decay=weight_decay)
