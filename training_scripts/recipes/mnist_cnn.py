"""A convolutional network for MNIST's handwritten digits and what comes in the same files (Fashion-MNIST).

    python -m drivetrain.training_scripts.train --train mnist --model build/model --recipe mnist_cnn

Layers and dropout are those of PyTorch's own MNIST example.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.images import normalized
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch
from drivetrain.training.torch.models.parameter_groups import decay_matrices

FRAMEWORK = "torch"
SIDE = 28
MEAN, STD = (0.1307,), (0.3081,)  # of the 60,000 training images


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Two convolutions, a pooling, a hidden layer.

    Dropout draws from the generator of its rank: the masks of a run on two ranks are others than those of a run on one.
    """

    columns: ClassVar[tuple[str, ...]] = ("image",)
    reader: ClassVar[str] = "mnist"

    num_classes: Annotated[int, Bounds(1)] = 10
    """Classes; labels are 0 to num_classes - 1."""
    channels: Annotated[int, Bounds(1)] = 32
    """Feature maps of the first convolution; the second has twice as many."""
    hidden: Annotated[int, Bounds(1)] = 128
    """Units of the hidden layer."""
    dropout: Annotated[float, Bounds(0, below=0.5)] = 0.25
    """Share of the features before the hidden layer that are dropped while training; after it, twice as many."""

    def model(self) -> nn.Module:
        wide, side = 2 * self.channels, (SIDE - 4) // 2
        return nn.Sequential(
            OrderedDict[str, nn.Module](
                conv1=nn.Conv2d(1, self.channels, kernel_size=3),
                relu1=nn.ReLU(),
                conv2=nn.Conv2d(self.channels, wide, kernel_size=3),
                relu2=nn.ReLU(),
                pool=nn.MaxPool2d(2),
                dropout1=nn.Dropout(self.dropout),
                flatten=nn.Flatten(),
                fc1=nn.Linear(wide * side**2, self.hidden),
                relu3=nn.ReLU(),
                dropout2=nn.Dropout(2 * self.dropout),
                fc2=nn.Linear(self.hidden, self.num_classes),
            )
        )

    def batch(self, columns: Columns, label: str) -> Batch:
        images = columns["image"]
        if images.shape[1:] != (SIDE, SIDE, 1):
            raise InputError(f"recipe 'mnist_cnn' takes grey images of {SIDE}x{SIDE}; these are {images.shape[1:]}.")
        return Batch(normalized(images, MEAN, STD), torch.from_numpy(columns[label].astype(np.int64)))

    def example(self, batch_size: int) -> Batch:
        return Batch(torch.zeros(batch_size, 1, SIDE, SIDE), torch.zeros(batch_size, dtype=torch.int64))

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets, reduction="none")

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": outputs.argmax(dim=1) == targets}

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.AdamW(decay_matrices(model, weight_decay), lr=learning_rate)
