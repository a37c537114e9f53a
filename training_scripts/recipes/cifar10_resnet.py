"""A residual network for CIFAR-10: 50,000 colour images of 32x32 pixels, ten classes.

    python -m drivetrain.training_scripts.train --train cifar-10-batches-bin --model build/model --recipe cifar10_resnet

K. He and others, "Deep Residual Learning for Image Recognition", CVPR 2016, section 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.augmentation import crop_and_flip
from drivetrain.training.input_pipeline.images import normalized
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch
from drivetrain.training.torch.models.parameter_groups import decay_matrices
from drivetrain.training.torch.models.resnet import cifar_resnet

FRAMEWORK = "torch"
SIDE = 32
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the 50,000 training images
MOMENTUM = 0.9


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """ResNet-20, or a deeper one. While training, images are shifted by up to four pixels and mirrored.

    Batch normalization learns from the samples of its own rank: a run on two ranks is another one than on one, and few
    samples a rank make for noisy statistics. What is evaluated and saved has rank 0's.
    """

    columns: ClassVar[tuple[str, ...]] = ("image",)
    reader: ClassVar[str] = "cifar10"

    num_classes: Annotated[int, Bounds(1)] = 10
    """Classes; labels are 0 to num_classes - 1."""
    depth: Annotated[int, Bounds(8)] = 20
    """Layers with weights: 6n + 2, as 20, 32, 44, 56 or 110."""
    width: Annotated[int, Bounds(1)] = 16
    """Feature maps of the first layers; the last have four times as many."""
    padding: Annotated[int, Bounds(0)] = 4
    """Pixels by which training images are shifted at most; 0 for none."""
    label_smoothing: Annotated[float, Bounds(0, below=1)] = 0.0
    """Share of the target that is spread over all classes while training, against overconfidence."""

    def __post_init__(self) -> None:
        if (self.depth - 2) % 6:
            raise ValueError(f"depth={self.depth}; allowed are numbers 6n + 2, such as 20, 32, 44 and 56")

    def model(self) -> nn.Module:
        return cifar_resnet((self.depth - 2) // 6, self.width, self.num_classes)

    def batch(self, columns: Columns, label: str) -> Batch:
        images = columns["image"]
        if images.shape[1:] != (SIDE, SIDE, 3):
            raise InputError(
                f"recipe 'cifar10_resnet' takes colour images of {SIDE}x{SIDE}; these are {images.shape[1:]}."
            )
        return Batch(normalized(images, MEAN, STD), torch.from_numpy(columns[label].astype(np.int64)))

    def augment(self, batch: Batch, seeds: NDArray[np.uint64]) -> Batch:
        return Batch(crop_and_flip(batch.inputs, seeds, padding=self.padding), batch.targets)

    def example(self, batch_size: int) -> Batch:
        return Batch(torch.zeros(batch_size, 3, SIDE, SIDE), torch.zeros(batch_size, dtype=torch.int64))

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # Smoothed where a gradient follows; what is reported of held-out data is the plain cross entropy.
        smoothing = self.label_smoothing if outputs.requires_grad else 0.0
        return functional.cross_entropy(outputs, targets, reduction="none", label_smoothing=smoothing)

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": outputs.argmax(dim=1) == targets}

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(decay_matrices(model, weight_decay), lr=learning_rate, momentum=MOMENTUM)
