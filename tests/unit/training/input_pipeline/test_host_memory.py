from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline import host_memory
from drivetrain.training.input_pipeline.host_memory import host_arrays, map_file
from drivetrain.training.process import Process

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
SHAPES = {"a": ((1000, 3), np.float32), "b": ((7,), np.uint8), "none": ((0, 4), np.int64)}


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(host_memory, "ALONE_PRIVATE_BYTES", 0)
    return tmp_path


def test_a_mapped_file_has_no_name_when_it_is_used(scratch: Path) -> None:
    with host_arrays(ALONE, SHAPES) as filling:
        assert (filling.number, filling.count) == (0, 1)
        assert len(list(scratch.iterdir())) == 1
        filling["a"][...] = 5
        filling["b"][...] = np.arange(7)
    assert list(scratch.iterdir()) == []
    assert str(scratch) in Path("/proc/self/maps").read_text()  # mapped all the same, and marked as deleted
    assert (filling["a"] == 5).all() and filling["b"].tolist() == list(range(7))
    assert filling["none"].shape == (0, 4)
    filling["a"][0] = 1  # copy-on-write


def test_nothing_is_left_after_a_failure(scratch: Path) -> None:
    with pytest.raises(InputError, match="a torn file"), host_arrays(ALONE, SHAPES):
        raise InputError("a torn file")
    assert list(scratch.iterdir()) == []


def test_little_data_needs_no_file(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "ALONE_PRIVATE_BYTES", 1 << 20)
    with host_arrays(ALONE, SHAPES) as filling:
        assert list(scratch.iterdir()) == []
        filling["b"][...] = 1
    assert filling["b"].sum() == 7


def test_a_full_disk_is_told_before_it_is_written_to(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    message = rf"{scratch} has no room for 0 MiB of decoded data \(No space left on device\)\. .* TMPDIR"
    with pytest.raises(InputError, match=message), host_arrays(ALONE, SHAPES):
        pass
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("offset", [0, 16, 4096, 5001])
def test_any_part_of_a_file_can_be_mapped(tmp_path: Path, offset: int) -> None:
    values = np.arange(10_000, dtype=np.uint8)
    (tmp_path / "file").write_bytes(values.tobytes())
    mapped = map_file(tmp_path / "file", np.uint8, (20, 10), offset=offset)
    np.testing.assert_array_equal(mapped.ravel(), values[offset : offset + 200])
    mapped[...] = 0
    assert (tmp_path / "file").read_bytes() == values.tobytes()
