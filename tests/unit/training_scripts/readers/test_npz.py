from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.choice import load_reader
from drivetrain.training.process import Process
from drivetrain.training.reader import Reader

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
X, Y = np.arange(24, dtype=np.float32).reshape(6, 4), np.arange(6) % 2


def opened(folder: Path, **options: Any) -> Reader:
    reader = load_reader("npz", folder, options, ALONE)
    reader.open(reader.column_names)
    return reader


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_stored_and_compressed(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "d.npz", x=X, y=Y)
    found = opened(tmp_path).read(np.array([5, 1]), ["x", "y"])
    np.testing.assert_array_equal(found["x"], X[[5, 1]])
    assert found["y"].tolist() == [1, 1]


def test_stored_arrays_are_mapped_where_they_lie(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=X, y=Y)
    reader = opened(tmp_path)
    maps = Path("/proc/self/maps").read_text()
    assert str(tmp_path / "d.npz") in maps
    del reader


def test_train_and_test_in_one_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x_train=X, y_train=Y, x_test=X[:2] + 100, y_test=Y[:2])
    train, test = opened(tmp_path), opened(tmp_path, split="test")
    assert (len(train), len(test)) == (6, 2)
    assert train.column_names == ("x", "y") and train.label == "y"
    assert test.read(slice(0, 1), ["x"])["x"][0, 0] == 100


def test_which_array_is_the_label(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=X, wanted=Y)
    with pytest.raises(InputError, match=r"has no array label, labels, y, target or targets\. Say which .*: x, wanted"):
        opened(tmp_path)
    assert opened(tmp_path, label="wanted").label == "wanted"
    assert opened(tmp_path, unlabelled=True).label is None
    with pytest.raises(InputError, match=r"no array 'wnated'\. Did you mean 'wanted'"):
        opened(tmp_path, label="wnated")


def test_which_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=Y)
    np.savez(tmp_path / "b.npz", x=X[:3], y=Y[:3])
    with pytest.raises(InputError, match=r"has a\.npz, b\.npz; exactly one archive"):
        opened(tmp_path)
    assert len(opened(tmp_path, file="b.npz")) == 3
    with pytest.raises(InputError, match=r"no archive 'c\.npz'"):
        opened(tmp_path, file="c.npz")


def test_unequal_lengths(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=X, y=Y[:5])
    with pytest.raises(InputError, match=r"d\.npz: the arrays have different numbers of rows \(x 6, y 5\)"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X, "y": np.float32(3)}, "array 'y' is a single value"),
        ({"x": X[:0], "y": Y[:0]}, "holds no rows"),
        ({"x": np.array(["a", None], dtype=object), "y": Y[:2]}, "array 'x' holds Python objects, not numbers"),
        ({}, "holds no arrays"),
    ],
)
def test_arrays_that_are_not_read(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(InputError, match=message):
        opened(tmp_path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("kept", [0, 10, 200, -30, -1])
def test_an_archive_that_was_cut_off(tmp_path: Path, save: Any, kept: int) -> None:
    save(tmp_path / "d.npz", x=X, y=Y)
    data = (tmp_path / "d.npz").read_bytes()
    (tmp_path / "d.npz").write_bytes(data[:kept])
    with pytest.raises(InputError, match=r"d\.npz is torn or no archive of arrays"):
        opened(tmp_path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_one_changed_bit(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "d.npz", x=np.random.default_rng(0).random((200, 4)), y=np.zeros(200))
    data = bytearray((tmp_path / "d.npz").read_bytes())
    data[2000] ^= 1  # among the values of x
    (tmp_path / "d.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"d\.npz is torn"):
        opened(tmp_path)
