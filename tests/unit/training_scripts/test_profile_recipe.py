"""Measuring without values: numbers that can be worked out by hand, and refusals that say what to do."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from drivetrain.base.errors import InputError
from drivetrain.training.recipe import Batch, load_recipe
from drivetrain.training_scripts import profile_recipe as measure_module
from drivetrain.training_scripts.profile_recipe import measure, write_speed


@dataclass(frozen=True, kw_only=True)
class Small:
    """Two layers on ten numbers."""

    width: int = 20
    momentum: float = 0.0
    frozen: bool = False
    columns = ("a", "b")
    num_classes = 3

    def model(self) -> nn.Module:
        made = nn.Sequential(nn.Linear(10, self.width), nn.ReLU(), nn.Linear(self.width, 3))
        if self.frozen:
            made[0].requires_grad_(False)
        return made

    def example(self, batch_size: int) -> Batch:
        return Batch(torch.zeros(batch_size, 10), torch.zeros(batch_size, dtype=torch.int64))

    def batch(self, columns: Any, label: str) -> Batch:
        raise AssertionError("the example is to be taken")

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets, reduction="none")

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {}

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        return torch.optim.SGD(trained, lr=learning_rate, momentum=self.momentum)


@pytest.fixture(autouse=True)
def a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe's hash is that of its file."""
    monkeypatch.setitem(sys.modules, Small.__module__, sys.modules.get(Small.__module__) or measure_module)


def test_numbers_worked_out_by_hand() -> None:
    found = measure(Small(), "small", {"width": 20})
    assert found["recipe"] == "small" and found["recipe_options"] == {"width": 20}
    assert found["parameters"] == {"count": 10 * 20 + 20 + 20 * 3 + 3, "bytes": {"float32": 283 * 4}}
    assert found["matrix_parameters"] == 10 * 20 + 20 * 3
    assert found["flops_per_sample"] == 2 * (10 * 20 + 20 * 3)
    assert found["input_bytes_per_sample"] == 10 * 4 + 8
    # ReLU's output, which the second layer needs, too; and what the loss keeps of three logits.
    assert [layer["name"] for layer in found["layers"]] == ["0", "1", "2"]
    assert of_layers(found, "full", "outputs") == [80, 80, 12]
    assert of_layers(found, "full", "activations") == [0, 80, 0]
    assert of_layers(found, "full", "checkpointed") == [0, 80, 0]  # the input of the second Linear is ReLU's output
    assert (found["loss"]["full"]["activations"], found["loss"]["full"]["outputs"]) == (3 * 4, 3 * 4)
    # Under autocast the layers are in two bytes (so is a copy of the inputs); the outputs are cast for the loss.
    assert of_layers(found, "half", "outputs") == [40, 40, 6]
    assert of_layers(found, "half", "activations") == [20, 40, 0]
    assert (found["loss"]["half"]["activations"], found["loss"]["half"]["outputs"]) == (3 * 4, 3 * 4)
    assert found["is_chain"] and found["sequence_length"] is None
    assert not found["has_tensor_plan"] and not found["has_context_plan"]
    assert len(found["source_hash"]) == 64


def of_layers(found: dict[str, Any], form: str, what: str) -> list[int]:
    return [layer[form][what] for layer in found["layers"]]


def test_optimizers_are_recognized_by_a_step() -> None:
    assert measure(Small(), "small", {})["optimizer"]["state_bytes_per_parameter"] == 0
    momentum = measure(Small(momentum=0.9), "small", {})["optimizer"]
    assert momentum == {"name": "SGD", "state_bytes": 283 * 4, "state_bytes_per_parameter": 4.0}
    adam = measure(load_recipe("digits_cnn", {}), "digits_cnn", {})["optimizer"]
    assert adam["state_bytes_per_parameter"] == 8.0


def test_frozen_parameters_keep_no_state() -> None:
    found = measure(Small(frozen=True, momentum=0.9), "small", {})
    assert found["trainable_parameters"] == 63 and found["parameters"]["count"] == 283
    assert found["optimizer"]["state_bytes"] == 63 * 4


@pytest.mark.parametrize("name", ["digits_cnn", "cifar10_resnet"])
def test_measurements_on_the_meta_device_match_a_real_pass(name: str) -> None:
    recipe = load_recipe(name, {})
    found = measure(recipe, name, {})
    model, batch = recipe.model().train(), measure_module._example(recipe, name, 8)
    known = {
        t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers(), batch.inputs, batch.targets)
    }
    kept: dict[int, int] = {}
    tensors: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
            tensors.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        recipe.losses(model(batch.inputs), batch.targets).sum().backward()
    optimizer = recipe.optimizer(model, learning_rate=1e-3, weight_decay=0.0)
    optimizer.step()
    state = [value for each in optimizer.state.values() for value in each.values() if isinstance(value, Tensor)]
    # All but what a batch of any size keeps once, such as running statistics.
    a_sample = sum(of_layers(found, "full", "activations")) + found["loss"]["full"]["activations"]
    assert sum(kept.values()) == pytest.approx(8 * a_sample, rel=0.002)
    assert sum(value.nbytes for value in state if value.dim()) == found["optimizer"]["state_bytes"]


class Numbers(Small):
    """Rows of single numbers: no example is needed."""

    example = None  # type: ignore[assignment]

    def batch(self, columns: Any, label: str) -> Batch:
        made = torch.stack([torch.from_numpy(columns[name]) for name in ("a", "b")] * 5, dim=1)
        return Batch(made, torch.from_numpy(columns[label]))


class Statistics(Small):
    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(10, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 3))


class Branches(Small):
    def model(self) -> nn.Module:
        class Two(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.left, self.right = nn.Linear(10, 3), nn.Linear(10, 3)

            def forward(self, inputs: Tensor) -> Tensor:
                return self.left(inputs) + self.right(inputs)

        return Two()


class Words(Small):
    def model(self) -> nn.Module:
        return nn.Sequential(nn.Embedding(100, 8), nn.Flatten(), nn.Linear(56, 3))

    def example(self, batch_size: int) -> Batch:
        return Batch(torch.zeros(batch_size, 7, dtype=torch.int64), torch.zeros(batch_size, dtype=torch.int64))


def test_models_of_other_kinds() -> None:
    assert measure(Numbers(), "numbers", {})["parameters"]["count"] == 283
    assert measure(Statistics(), "statistics", {})["buffers"] == {"count": 9, "bytes": {"float32": 32, "int64": 8}}
    branches = measure(Branches(), "branches", {})
    assert not branches["is_chain"] and [layer["name"] for layer in branches["layers"]] == ["left", "right"]
    assert measure(Words(), "words", {})["sequence_length"] == 7


def test_a_model_larger_than_the_machine_is_measured() -> None:
    found = measure(Small(width=10**12), "small", {})
    assert found["parameters"]["count"] == 14 * 10**12 + 3


class NoExample(Small):
    example = None  # type: ignore[assignment]

    def batch(self, columns: Any, label: str) -> Batch:
        return Batch(torch.from_numpy(columns["a"].reshape(-1, 4)), torch.zeros(4))


class WrongExample(Small):
    def example(self, batch_size: int) -> Any:
        return torch.zeros(batch_size, 10)


class MeanLoss(Small):
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets)


class Peeks(Small):
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return super().losses(outputs, targets) if outputs.sum().item() > 0 else outputs


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (NoExample(), r"batch\(\) does not take rows of single numbers .*Give the recipe a method example"),
        (WrongExample(), r"example\(\) returned a Tensor; it must return a Batch"),
        (MeanLoss(), r"losses\(\) gives shape \[\] for 2 samples; allowed is one loss a sample, \[2\]"),
        (Peeks(), r"cannot be measured: its model or losses fail on 2 samples of shape \[10\] without values"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Small) else "",
)
def test_unmeasurable_recipes_give_a_reason(recipe: Small, message: str) -> None:
    with pytest.raises(InputError, match=message):
        measure(recipe, "small", {})


def test_the_speed_of_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_module, "WRITTEN_BYTES", 16 * 1024**2)
    assert write_speed(tmp_path) > 1e5
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="--write-speed"):
        write_speed(tmp_path / "nowhere")
