from __future__ import annotations

import struct

import numpy as np
import pytest
import torch
from safetensors.torch import load

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.tensors.host_buffer import PAGE, HostBuffer
from drivetrain.training.checkpointing.tensors.index import DTYPES
from drivetrain.training.checkpointing.tensors.pieces import Piece
from drivetrain.training.checkpointing.tensors.rank_file import RankFile, file_name
from drivetrain.training.torch.checkpoints.memory import copy_all, piece_of, tensor_at, views

TENSORS = {
    "odd": torch.arange(3, dtype=torch.int8),
    "scalar": torch.tensor(2.5, dtype=torch.float64),
    "turned": torch.arange(6, dtype=torch.float32).view(2, 3).T,
    "none": torch.empty(0, 4),
    "half": torch.rand(5).to(torch.bfloat16),
    "flag": torch.tensor([True, False]),
}


def written(tensors: dict[str, torch.Tensor]) -> tuple[RankFile, HostBuffer]:
    file = RankFile(file_name(0, 1), [piece_of(name, tensor) for name, tensor in tensors.items()])
    buffer = HostBuffer(file.size)
    file.write_header(buffer)
    copy_all(views(buffer, file.places), [tensors[place.name] for place in file.places])
    return file, buffer


def test_it_is_a_safetensors_file() -> None:
    file, buffer = written(TENSORS)
    found = load(bytes(buffer.view(file.size)))
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


def test_the_index_says_where_each_tensor_lies() -> None:
    file, buffer = written(TENSORS)
    for name, entry in file.part.items():
        (chunk,) = entry.chunks
        there = tensor_at(buffer, chunk.start, chunk.sizes, entry.dtype)
        assert torch.equal(there, TENSORS[name])
        assert chunk.start % DTYPES[entry.dtype][1] == 0
        assert chunk.length == there.numel() * there.element_size()


def test_data_starts_with_a_page() -> None:
    pieces = [("a", "uint8", (7,)), ("b", "float64", (3,)), ("c", "float16", (2, 2))]
    file = RankFile("f", [Piece.whole(name, dtype, shape) for name, dtype, shape in pieces])
    assert {place.name: place.start for place in file.places} == {"b": PAGE, "c": PAGE + 24, "a": PAGE + 32}
    assert file.size == PAGE + 39
    buffer = HostBuffer(file.size)
    file.write_header(buffer)
    (length,) = struct.unpack("<Q", bytes(buffer.view(8)))
    assert 8 + length == PAGE
    assert np.frombuffer(buffer.memory, np.uint8).ctypes.data % PAGE == 0
    assert len(buffer.view(file.size)) == file.size


def test_every_format_that_is_listed_is_one_of_torch_and_of_safetensors() -> None:
    tensors = {name: torch.zeros(2, dtype=getattr(torch, name)) for name in DTYPES}
    file, buffer = written(tensors)
    found = load(bytes(buffer.view(file.size)))
    assert {name: tensor.dtype for name, tensor in found.items()} == {n: t.dtype for n, t in tensors.items()}
    assert all(tensors[name].element_size() == size for name, (_, size) in DTYPES.items())


def test_numbers_that_no_file_can_hold() -> None:
    with pytest.raises(InputError, match=r"tensor 'z' is of complex64; checkpoints take float64, "):
        written({"z": torch.zeros(2, dtype=torch.complex64)})


def test_slices_are_called_by_what_they_are_of() -> None:
    file = RankFile("f", [Piece("w", "float32", (4, 2), (2, 0), (2, 2))])
    buffer = HostBuffer(file.size)
    file.write_header(buffer)
    assert list(load(bytes(buffer.view(file.size)))) == ["w[2:4, 0:2]"]
    assert file.part["w"].shape == (4, 2)


def test_memory_that_is_not_needed_is_given_back_by_pages() -> None:
    buffer = HostBuffer(8 * PAGE)
    numbers = np.frombuffer(buffer.memory, np.uint8)
    numbers[:] = 7
    buffer.keep_only([(5 * PAGE + 10, 2), (PAGE + 5, PAGE)])
    pages = [set(page.tolist()) for page in numbers.reshape(-1, PAGE)]
    assert pages == [{0}, {7}, {7}, {0}, {0}, {7}, {0}, {0}]
    buffer.keep_only([])
    assert not numbers.any()


def test_each_tensor_is_all_of_its_storage() -> None:
    """torch.save writes whole storages; torch's asynchronous checkpoints need parts that begin theirs."""
    buffer = HostBuffer(3 * PAGE)
    tensor = tensor_at(buffer, PAGE, (2, 3), "float32")
    tensor.fill_(1.0)
    assert tensor.storage_offset() == 0 and tensor.untyped_storage().nbytes() == tensor.nbytes
    assert bytes(buffer.view(3 * PAGE)[PAGE : PAGE + 4]) == struct.pack("<f", 1.0)
    assert tensor_at(buffer, 0, (0, 4), "float32").shape == (0, 4)
