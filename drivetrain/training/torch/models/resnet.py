"""Residual networks of basic blocks, as chains, with the names of parameters that torchvision gives them.

K. He, X. Zhang, S. Ren and J. Sun, "Deep Residual Learning for Image Recognition", CVPR 2016; section 3 has the network
for ImageNet (224x224 pixels), section 4.2 the one for CIFAR-10 (32x32). Files of weights of torchvision's `resnet18`
and `resnet34` fit `imagenet_resnet` as they are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from torch import Tensor, nn
from torch.nn import functional

Normalization = Callable[[int], nn.Module]


def imagenet_resnet(blocks: Sequence[int], num_classes: int, norm: Normalization = nn.BatchNorm2d) -> nn.Sequential:
    """For pictures of about 224x224 pixels, shape [samples, 3, height, width]. `blocks` (2, 2, 2, 2) is ResNet-18."""
    stem = OrderedDict[str, nn.Module](
        conv1=nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False),
        bn1=norm(64),
        relu=nn.ReLU(),
        maxpool=nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
    )
    return _resnet(stem, blocks, (64, 128, 256, 512), num_classes, projected, norm)


def cifar_resnet(blocks: int, width: int, num_classes: int) -> nn.Sequential:
    """For pictures of 32x32 pixels, shape [samples, 3, 32, 32]; 6 * `blocks` + 2 layers have weights."""
    stem = OrderedDict[str, nn.Module](
        conv1=nn.Conv2d(3, width, kernel_size=3, padding=1, bias=False),
        bn1=nn.BatchNorm2d(width),
        relu=nn.ReLU(),
    )
    widths = (width, 2 * width, 4 * width)
    return _resnet(stem, (blocks,) * 3, widths, num_classes, padded, nn.BatchNorm2d)


def projected(width_in: int, width: int, stride: int, norm: Normalization) -> nn.Module:
    """The shortcut with weights: the paper's option B."""
    return nn.Sequential(nn.Conv2d(width_in, width, kernel_size=1, stride=stride, bias=False), norm(width))


def padded(width_in: int, width: int, stride: int, norm: Normalization) -> nn.Module:
    """The shortcut without weights: the paper's option A, which it uses for CIFAR-10."""
    return PaddedShortcut(width - width_in, stride)


class PaddedShortcut(nn.Module):
    """Every `stride`-th pixel, and `added` further channels of zeros."""

    def __init__(self, added: int, stride: int) -> None:
        super().__init__()
        self.added, self.stride = added, stride

    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))


class BasicBlock(nn.Module):
    """Two convolutions of 3x3 beside a shortcut; where the shape changes, the shortcut changes it too.

    Batch normalization learns from the samples of its own rank: a run on two ranks is another one than on one.
    """

    def __init__(
        self, width_in: int, width: int, stride: int, shortcut: Callable[..., nn.Module], norm: Normalization
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = norm(width)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, kernel_size=3, padding=1, bias=False)
        self.bn2 = norm(width)
        same = stride == 1 and width_in == width
        self.downsample = nn.Identity() if same else shortcut(width_in, width, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(inner + self.downsample(x))


def _resnet(
    stem: OrderedDict[str, nn.Module],
    blocks: Sequence[int],
    widths: Sequence[int],
    num_classes: int,
    shortcut: Callable[..., nn.Module],
    norm: Normalization,
) -> nn.Sequential:
    groups: dict[str, nn.Module] = {}
    width_in = widths[0]
    for number, (count, width) in enumerate(zip(blocks, widths, strict=True), start=1):
        strides = [1 if number == 1 else 2] + [1] * (count - 1)
        layers: list[nn.Module] = []
        for stride in strides:
            layers.append(BasicBlock(width_in, width, stride, shortcut, norm))
            width_in = width
        groups[f"layer{number}"] = nn.Sequential(*layers)
    model = nn.Sequential(
        OrderedDict[str, nn.Module](
            **stem,
            **groups,
            avgpool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            fc=nn.Linear(width_in, num_classes),
        )
    )
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model
