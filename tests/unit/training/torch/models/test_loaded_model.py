from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.recipe import load_recipe
from drivetrain.training.torch.framework import Framework
from drivetrain.training.torch.models.loaded_model import load_model

OPTIONS = {"channels": 2, "hidden": 4}


def write(folder: Path, **changes: object) -> torch.nn.Module:
    torch.manual_seed(0)
    model = load_recipe("digits_cnn", OPTIONS).model()
    description = {"recipe": "digits_cnn", "recipe_options": OPTIONS, "precision": "fp32", **changes}
    Framework.save_model(folder, model.state_dict(), description)
    return model


def test_round_trip(tmp_path: Path) -> None:
    model = write(tmp_path / "model", metrics={"validation_accuracy": 0.5})
    recipe, loaded, description = load_model(tmp_path / "model")
    assert recipe == load_recipe("digits_cnn", OPTIONS)
    assert description["metrics"] == {"validation_accuracy": 0.5}
    state, expected = loaded.state_dict(), model.state_dict()
    assert all(torch.equal(state[name], expected[name]) for name in expected)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / name)
    for file in ("model.json", "model.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.parametrize("file", ["model.json", "model.safetensors"])
def test_a_file_that_is_missing(file: str, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(InputError, match=rf"is not a model folder: no {file}\. Give the output `model` of train"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "does not describe a model"),
        ("[]", "does not describe a model"),
        ("[" * 100_000, "does not describe a model"),
        ('{"format": 7}', "has format 7; this program reads format 1"),
        ('{"format": 1, "recipe": "digits_cn", "recipe_options": {}}', "Did you mean 'digits_cnn'"),
    ],
)
def test_a_description_that_is_none(text: str, message: str, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(InputError, match=message):
        load_model(tmp_path)


def test_a_flipped_bit_in_the_weights(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"model\.safetensors is not what model\.json describes"):
        load_model(tmp_path)


def test_weights_of_another_model(tmp_path: Path) -> None:
    write(tmp_path)
    description = json.loads((tmp_path / "model.json").read_text())
    description["recipe_options"]["hidden"] = 8
    (tmp_path / "model.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match=r"does not fit recipe 'digits_cnn': .*size mismatch"):
        load_model(tmp_path)
