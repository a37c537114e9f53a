from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from drivetrain.training.torch.models.resnet import BasicBlock, PaddedShortcut, cifar_resnet, imagenet_resnet, projected


def names_of_torchvisions_resnet18() -> set[str]:
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    names = {"conv1.weight", "fc.weight", "fc.bias", *(f"bn1.{part}" for part in norm)}
    for layer in (1, 2, 3, 4):
        for block in (0, 1):
            for number in (1, 2):
                names.add(f"layer{layer}.{block}.conv{number}.weight")
                names |= {f"layer{layer}.{block}.bn{number}.{part}" for part in norm}
        if layer > 1:
            names.add(f"layer{layer}.0.downsample.0.weight")
            names |= {f"layer{layer}.0.downsample.1.{part}" for part in norm}
    return names


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_resnet18_has_torchvisions_names_and_size() -> None:
    with torch.device("meta"):
        model = imagenet_resnet((2, 2, 2, 2), 1000)
    assert model.state_dict().keys() == names_of_torchvisions_resnet18()
    assert count(model) == 11_689_512
    assert model.state_dict()["layer3.0.downsample.0.weight"].shape == (256, 128, 1, 1)


@pytest.mark.parametrize(("depth", "millions"), [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)])
def test_cifar_resnets_are_as_large_as_the_papers(depth: int, millions: float) -> None:
    """Table 6 of the paper."""
    with torch.device("meta"):
        model = cifar_resnet((depth - 2) // 6, 16, 10)
    assert count(model) / 1e6 == pytest.approx(millions, abs=0.035 if depth == 110 else 0.005)


def test_sizes_on_the_way_through() -> None:
    sizes = []
    model = imagenet_resnet((1, 1, 1, 1), 7).eval()
    x = torch.zeros(2, 3, 64, 64)
    for _, layer in model.named_children():
        x = layer(x)
        sizes.append(tuple(x.shape[1:]))
    assert sizes[3:8] == [(64, 16, 16), (64, 16, 16), (128, 8, 8), (256, 4, 4), (512, 2, 2)]
    assert sizes[-1] == (7,)
    assert cifar_resnet(1, 4, 10).eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_a_block_is_what_the_paper_says() -> None:
    block = BasicBlock(3, 5, 2, projected, nn.BatchNorm2d).double()
    x = torch.randn(4, 3, 6, 6, dtype=torch.float64)

    def normalized(values: torch.Tensor) -> torch.Tensor:
        mean, variance = values.mean((0, 2, 3), keepdim=True), values.var((0, 2, 3), unbiased=False, keepdim=True)
        return (values - mean) / (variance + 1e-5).sqrt()

    inner = functional.conv2d(x, block.conv1.weight, stride=2, padding=1)
    inner = functional.conv2d(normalized(inner).relu(), block.conv2.weight, padding=1)
    beside = functional.conv2d(x, block.downsample[0].weight, stride=2)  # type: ignore[index]
    torch.testing.assert_close(block(x), (normalized(inner) + normalized(beside)).relu())


def test_a_shortcut_without_weights() -> None:
    x = torch.randn(2, 3, 4, 4)
    found = PaddedShortcut(2, 2)(x)
    assert torch.equal(found[:, :3], x[:, :, ::2, ::2])
    assert found.shape == (2, 5, 2, 2)
    assert not found[:, 3:].any()
