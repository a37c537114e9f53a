from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save

from drivetrain.base.errors import InputError
from drivetrain.training.recipe import load_recipe
from drivetrain.training.torch.framework import Framework
from drivetrain.training.torch.models.loaded_model import DTYPES, load_model, parse_tensors

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


def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    found: dict[str, torch.Tensor] = {
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 4),
        "name with ü": torch.ones(1),
    }
    for number, dtype in enumerate(DTYPES.values()):
        values = torch.randint(0, 2, (3, number + 1, 2), generator=generator)
        found[f"of {dtype}"] = values.to(dtype)
    return found


def test_every_number_format_is_read_as_the_library_reads_it() -> None:
    data = save(tensors(), metadata={"format": "pt"})
    expected, found = load(data), parse_tensors(data)
    assert found.keys() == expected.keys() and len(found) == 3 + len(DTYPES)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
        assert found[name].reshape(-1).view(torch.uint8).equal(tensor.reshape(-1).view(torch.uint8)), name
        found[name].reshape(-1)[:1] = 0  # memory of its own, which may be written to


DATA = save({"a": torch.arange(4.0), "b": torch.zeros(2, 2, dtype=torch.int64)})


@pytest.mark.parametrize("end", [0, 4, 8, 20, len(DATA) - 33, len(DATA) - 1])
def test_a_torn_file(end: int) -> None:
    with pytest.raises(ValueError, match=r"ends|header"):
        parse_tensors(DATA[:end])


def test_more_bytes_than_tensors() -> None:
    with pytest.raises(ValueError, match="more bytes"):
        parse_tensors(DATA + b"\0")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}, "unknown type 'F99'"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, "cannot be"),
        ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, "cannot be"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, "cannot be"),
        ({"a": {"dtype": "F32", "shape": [1]}}, "header cannot be read"),
        ([], "header cannot be read"),
        ("[" * 100_000, "header cannot be read"),
    ],
)
def test_a_header_that_lies(header: object, message: str) -> None:
    text = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    with pytest.raises(ValueError, match=message):
        parse_tensors(len(text).to_bytes(8, "little") + text + bytes(8))
