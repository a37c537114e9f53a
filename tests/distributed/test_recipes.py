"""The shipped recipes, as their configs (docs/recipes) tell, on small data in the real formats."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from drivetrain.authoring.plain_yaml import read_yaml
from drivetrain.steps.signature import parameters_of
from drivetrain.training import plugins
from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process
from drivetrain.training.recipe import load_recipe
from drivetrain.training.torch.models.loaded_model import load_model
from drivetrain.training.torch.models.resnet import imagenet_resnet
from drivetrain.training_scripts.train import train
from tests.fixtures import tiny_data

CONFIGS = Path(__file__).parents[2] / "docs/recipes"
NAMES = plugins.recipes_alone("torch")
ROWS, STEPS = 21, 4
# What makes a model look at other samples of its rank, or at a generator of its rank, and how to do without.
ALONE: dict[str, dict[str, Any]] = {
    "ants_bees_resnet18": {"freeze": True},
    "decoder_lm": {"bias": True, "dropout": 0.0},
    "digits_cnn": {},
    "imdb_sentiment": {"dropout": 0.0},
    "mnist_cnn": {"dropout": 0.0},
}
# Which are started from the command line in the slow suite; the nightly one starts them all.
COMMANDS = {("decoder_lm", 1), ("mnist_cnn", 2)}
Forked = Callable[..., list[Any]]


def config_of(name: str, **changed: Any) -> Config:
    """The shipped config, made small: `recipe_options` come on top of those of the tests."""
    shipped = read_yaml(CONFIGS / f"{name}.yaml")
    options = json.loads(shipped.get("recipe_options", "{}")) | tiny_data.SMALL.get(name, {})
    options |= changed.pop("recipe_options", {})
    small = {"max_steps": STEPS, "epochs": 1 + STEPS, "global_batch": 6, "warmup_epochs": 0.0}
    return Config(**shipped | small | {"recipe_options": json.dumps(options)} | changed)


def data_for(name: str, folder: Path, *, rows: int = ROWS) -> Path:
    reader = getattr(load_recipe(name, {}), "reader", "prepared")
    return tiny_data.write(reader, folder, rows=rows)


def run(process: Process, config: Config, folders: Folders) -> None:
    train(config, folders, process)


def trained(
    pooled: Forked, ranks: int, config: Config, data: Path, folder: Path, *, start: Path | None = None
) -> dict[str, Tensor]:
    """The weights after a training on `ranks` ranks, with the training data for validation."""
    folders = Folders(train=data, model=folder / "model", validation=data, weights=start, output=folder / "output")
    pooled(ranks, run, config, folders)
    history = json.loads((folder / "output" / "history.json").read_text(encoding="utf-8"))
    assert history[-1]["step"] == STEPS
    assert history[-1]["validation_accuracy"] >= 0
    _, model, description = load_model(folder / "model")
    assert description["training"]["world_size"] == ranks
    return model.state_dict()


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    return max((one[name].double() - other[name].double()).abs().max().item() for name in one)


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_has_a_config_that_says_what_it_changes(name: str) -> None:
    shipped = read_yaml(CONFIGS / f"{name}.yaml")
    declared = parameters_of(Config)
    assert set(shipped) <= set(declared)
    kinds = {int: int, float: (int, float), str: str, bool: bool}
    assert all(isinstance(value, kinds[declared[key].type]) for key, value in shipped.items())
    config = Config(**shipped)
    assert config.recipe == name
    load_recipe(name, json.loads(config.recipe_options))


# (The largest of them is fine-tuned on two processes below.)
@pytest.mark.slow_cases("mnist_cnn", "cifar10_resnet", "imdb_sentiment")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "ants_bees_resnet18" else []) for name in NAMES]
)
def test_it_trains_on_one_process_and_on_two(name: str, pooled: Forked, tmp_path: Path) -> None:
    """On as many as one likes it is the same training, augmentation included, where samples are on their own."""
    data = data_for(name, tmp_path / "data")
    config = config_of(name, precision="fp64", recipe_options=ALONE.get(name, {}))
    weights = [trained(pooled, ranks, config, data, tmp_path / str(ranks)) for ranks in (1, 2)]
    difference = largest_difference(*weights)
    assert difference < 1e-9 if name in ALONE else difference > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("fsdp", {}),
        pytest.param("tp", {}, marks=pytest.mark.slow),
        ("tp", {"sequence": True}),
        ("cp", {}),
        ("pp", {}),
    ],
)
def test_the_language_model_is_the_same_under_the_strategies_it_is_for(
    strategy: str, options: dict[str, Any], pooled: Forked, tmp_path: Path
) -> None:
    data = data_for("decoder_lm", tmp_path / "data")
    config = config_of("decoder_lm", precision="fp64", recipe_options=ALONE["decoder_lm"])
    expected = trained(pooled, 1, config, data, tmp_path / "one")
    other = dataclasses.replace(config, strategy=strategy, strategy_options=json.dumps(options))
    assert largest_difference(trained(pooled, 2, other, data, tmp_path / "two"), expected) < 1e-9


@pytest.mark.slow_cases("pp")
@pytest.mark.parametrize("strategy", [pytest.param("fsdp", marks=pytest.mark.slow), "pp"])
def test_a_residual_network_can_be_cut(strategy: str, pooled: Forked, tmp_path: Path) -> None:
    data = data_for("cifar10_resnet", tmp_path / "data")
    config = config_of("cifar10_resnet", strategy=strategy)
    names = load_recipe("cifar10_resnet", json.loads(config.recipe_options)).model().state_dict().keys()
    weights = trained(pooled, 2, config, data, tmp_path / "two")
    assert weights.keys() == names
    assert all(tensor.isfinite().all() for tensor in weights.values())


@pytest.mark.slow
def test_fine_tuning_starts_from_a_file(pooled: Forked, tmp_path: Path) -> None:
    torch.manual_seed(5)
    imagenet = imagenet_resnet((2, 2, 2, 2), 1000).state_dict()
    save_file(imagenet, tmp_path / "resnet18.safetensors")
    data = data_for("ants_bees_resnet18", tmp_path / "data")
    config = config_of("ants_bees_resnet18", recipe_options={"freeze": True})
    weights = trained(pooled, 2, config, data, tmp_path / "two", start=tmp_path / "resnet18.safetensors")
    assert torch.equal(weights["layer4.1.conv2.weight"], imagenet["layer4.1.conv2.weight"])
    assert weights["fc.weight"].shape == (2, 512)


@pytest.mark.parametrize(
    ("name", "processes"),
    [
        pytest.param(name, processes, marks=pytest.mark.slow if (name, processes) in COMMANDS else pytest.mark.nightly)
        for name in NAMES
        for processes in (1, 2)
    ],
)
def test_it_trains_from_the_command_line(name: str, processes: int, tmp_path: Path) -> None:
    data = data_for(name, tmp_path / "data")
    config = dataclasses.asdict(config_of(name, validate_every=2, recipe_options=ALONE.get(name, {})))
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in config.items()]
    program = "drivetrain.training_scripts.train"
    launcher = ["drivetrain.training_scripts.launch", f"--processes={processes}"] if processes > 1 else []
    command = [sys.executable, "-m", *launcher, program]
    folders = [f"--train={data}", f"--validation={data}", f"--model={tmp_path / 'model'}"]
    ended = subprocess.run([*command, *folders, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    assert re.findall(r"step (\d+) train_loss=\S+ validation_loss=\S+", ended.stdout) == ["2", "4"]
    _, _, description = load_model(tmp_path / "model")
    assert description["training"]["world_size"] == processes
