"""Fine-tune ResNet-18 on pictures in one folder a class: ants and bees, or your own.

    python -m drivetrain.training_scripts.train --train hymenoptera_data/train --model build/model \\
        --recipe ants_bees_resnet18 --weights resnet18.safetensors

The weights to start from are a file, in torchvision's names (ImageNet's `resnet18`, as safetensors or as a state dict
of torch); its layer for 1,000 classes is left out. Without one the network learns from nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from drivetrain.base.bounds import Bounds
from drivetrain.training.input_pipeline.augmentation import resized_crop_and_flip
from drivetrain.training.input_pipeline.images import normalized
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch
from drivetrain.training.torch.models.parameter_groups import share_learning_rate
from drivetrain.training.torch.models.resnet import imagenet_resnet

FRAMEWORK = "torch"
BLOCKS = (2, 2, 2, 2)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, which the weights have learnt with
MOMENTUM = 0.9
# Pictures are read somewhat larger than they are trained on, for boxes to be cut out of them. (That is also what
# evaluation sees: larger is better there, H. Touvron and others, "Fixing the train-test resolution discrepancy", 2019.)
MARGIN = 8 / 7


class FrozenBatchNorm(nn.Module):
    """Batch normalization by the statistics that it has, also while training: nothing in it looks across samples.

    Names are those of nn.BatchNorm2d. It is no BatchNorm2d, so that nothing tries to synchronize it.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(width), requires_grad=False)
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        return functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """ResNet-18 with a last layer of its own. While training, a random box of each picture is resized and mirrored.

    Batch normalization learns from the samples of its own rank: a run on two ranks is another one than on one, and few
    samples a rank make for noisy statistics. What is evaluated and saved has rank 0's. With `freeze` it learns nothing,
    and any number of ranks gives the same.
    """

    columns: ClassVar[tuple[str, ...]] = ("image",)
    reader: ClassVar[str] = "image_folder"

    num_classes: Annotated[int, Bounds(1)] = 2
    """Classes: folders of pictures."""
    freeze: bool = False
    """Learn the last layer alone; all others stay what they were when training began."""
    backbone_share: Annotated[float, Bounds(above=0, most=1)] = 0.1
    """The share of the learning rate for the layers before the last one."""
    size: Annotated[int, Bounds(32)] = 224
    """Height and width of what is trained on, in pixels."""
    smallest_box: Annotated[float, Bounds(above=0, most=1)] = 0.25
    """The smallest area of a box, in parts of the picture; 1 for whole pictures."""

    @property
    def reader_options(self) -> Mapping[str, Any]:
        return {"size": round(self.size * MARGIN)}

    def model(self) -> nn.Module:
        model = imagenet_resnet(BLOCKS, self.num_classes, FrozenBatchNorm if self.freeze else nn.BatchNorm2d)
        if self.freeze:
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(name.startswith("fc."))
        return model

    def batch(self, columns: Columns, label: str) -> Batch:
        return Batch(normalized(columns["image"], MEAN, STD), torch.from_numpy(columns[label].astype(np.int64)))

    def augment(self, batch: Batch, seeds: NDArray[np.uint64]) -> Batch:
        scale = (self.smallest_box, 1.0)
        return Batch(resized_crop_and_flip(batch.inputs, seeds, size=self.size, scale=scale), batch.targets)

    def example(self, batch_size: int) -> Batch:
        side = round(self.size * MARGIN)
        return Batch(torch.zeros(batch_size, 3, side, side), torch.zeros(batch_size, dtype=torch.int64))

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets, reduction="none")

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": outputs.argmax(dim=1) == targets}

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        shares = {"fc.": 1.0, "": self.backbone_share}
        groups = share_learning_rate(model, weight_decay, learning_rate, shares)
        return torch.optim.SGD(groups, lr=learning_rate, momentum=MOMENTUM)
