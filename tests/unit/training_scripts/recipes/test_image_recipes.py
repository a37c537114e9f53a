from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training.recipe import Recipe, load_recipe
from drivetrain.training.torch.models.resnet import imagenet_resnet
from drivetrain.training.torch.models.weights import load_weights


@pytest.mark.parametrize(
    ("name", "shape"),
    [("mnist_cnn", (2, 32, 32, 1)), ("cifar10_resnet", (2, 28, 28, 1)), ("mnist_cnn", (2, 28, 28, 3))],
)
def test_pictures_of_another_size_are_refused_by_name(name: str, shape: tuple[int, ...]) -> None:
    columns = {"image": np.zeros(shape, dtype=np.uint8), "label": np.zeros(2, dtype=np.int64)}
    with pytest.raises(InputError, match=rf"recipe '{name}' takes .* these are \({shape[1]}, "):
        load_recipe(name, {}).batch(columns, "label")


@pytest.mark.parametrize("depth", [2, 18, 21])
def test_depths_that_no_residual_network_has(depth: int) -> None:
    with pytest.raises(InputError, match=rf"depth={depth}.* allowed are"):
        load_recipe("cifar10_resnet", {"depth": depth})


def test_smoothing_is_for_training_alone() -> None:
    recipe = load_recipe("cifar10_resnet", {"label_smoothing": 0.2})
    outputs, targets = torch.randn(3, 10), torch.tensor([1, 2, 3])
    plain = nn.functional.cross_entropy(outputs, targets, reduction="none")
    torch.testing.assert_close(recipe.losses(outputs, targets), plain)
    assert (recipe.losses(outputs.requires_grad_(), targets) != plain).all()


def test_a_last_layer_of_its_own_on_weights_for_a_thousand_classes(tmp_path: Path) -> None:
    torch.manual_seed(3)
    imagenet = imagenet_resnet((2, 2, 2, 2), 1000).state_dict()
    torch.save({f"module.{name}": tensor for name, tensor in imagenet.items()}, tmp_path / "resnet18.pth")
    model = load_recipe("ants_bees_resnet18", {}).model()
    lines = load_weights(model, tmp_path / "resnet18.pth")
    assert lines[0].endswith("took 120 of 122 tensors, without the prefix 'module.' of their names")
    assert lines[1].startswith("left fresh: fc.weight, fc.bias (fc.weight: [1000, 512] in the file, [2, 512] in the")
    for name, tensor in model.state_dict().items():
        assert name.startswith("fc.") or torch.equal(tensor, imagenet[name])


def step(recipe: Recipe, model: nn.Module) -> None:
    optimizer = recipe.optimizer(model, learning_rate=0.1, weight_decay=0.1)
    inputs, targets = torch.randn(4, 3, 32, 32), torch.tensor([0, 1, 0, 1])
    recipe.losses(model.train()(inputs), targets).sum().backward()
    optimizer.step()


def changed(freeze: bool) -> set[str]:
    torch.manual_seed(0)
    recipe = load_recipe("ants_bees_resnet18", {"freeze": freeze, "size": 32})
    model = recipe.model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    step(recipe, model)
    return {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}


def test_frozen_all_but_the_last_layer_stays() -> None:
    assert changed(freeze=True) == {"fc.weight", "fc.bias"}
    assert changed(freeze=False) >= {"fc.weight", "conv1.weight", "bn1.running_mean", "layer4.1.bn2.bias"}


def test_frozen_samples_do_not_know_of_each_other_while_training() -> None:
    torch.manual_seed(0)
    model = load_recipe("ants_bees_resnet18", {"freeze": True, "size": 32}).model().train()
    inputs = torch.randn(3, 3, 32, 32)
    torch.testing.assert_close(model(inputs)[:1], model(inputs[:1]))


def test_a_frozen_network_is_the_same_network() -> None:
    frozen, free = (
        load_recipe("ants_bees_resnet18", {"freeze": freeze, "size": 32}).model() for freeze in (True, False)
    )
    with torch.no_grad():
        for name, tensor in free.state_dict().items():
            if "running" in name:
                tensor.uniform_(0.5, 2.0)
    frozen.load_state_dict(free.state_dict())
    inputs = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(frozen.train()(inputs), free.eval()(inputs))
    synchronized = nn.SyncBatchNorm.convert_sync_batchnorm(frozen)
    assert not any(isinstance(module, nn.SyncBatchNorm) for module in synchronized.modules())


def test_the_backbone_learns_at_a_share_of_the_rate() -> None:
    recipe = load_recipe("ants_bees_resnet18", {"backbone_share": 0.25})
    model = recipe.model()
    groups = recipe.optimizer(model, learning_rate=0.2, weight_decay=0.1).param_groups
    rates: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        (group,) = (g for g in groups if any(parameter is other for other in g["params"]))
        rates[name] = (group["lr"], group["weight_decay"])
    assert rates["fc.weight"] == (0.2, 0.1)
    assert rates["fc.bias"] == (0.2, 0.0)
    assert rates["layer4.1.conv2.weight"] == (0.05, 0.1)
    assert rates["bn1.weight"] == (0.05, 0.0)


def test_trained_on_boxes_of_one_size() -> None:
    recipe = load_recipe("ants_bees_resnet18", {"size": 64})
    example = recipe.example(3)  # type: ignore[attr-defined]
    assert recipe.reader_options == {"size": 73}  # type: ignore[attr-defined]
    assert example.inputs.shape == (3, 3, 73, 73)
    augmented = recipe.augment(example, np.arange(3, dtype=np.uint64))  # type: ignore[attr-defined]
    assert augmented.inputs.shape == (3, 3, 64, 64)
