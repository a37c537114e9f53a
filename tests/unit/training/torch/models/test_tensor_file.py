"""What reads weights without the safetensors library gives what the library gives, and refuses what is torn."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load, save

from drivetrain.training.torch.models.tensor_file import DTYPES, parse_tensors


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
