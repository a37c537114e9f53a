from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.choice import load_reader
from drivetrain.training.process import Process
from drivetrain.training.reader import Reader

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes()


def write(folder: Path, prefix: str, num_rows: int, *, first_label: int = 0, dot: bool = False) -> None:
    folder.mkdir(exist_ok=True)
    images = np.full((num_rows, 5, 4), 7, dtype=np.uint8)
    labels = (first_label + np.arange(num_rows, dtype=np.uint8)) % 10
    sign = "." if dot else "-"
    (folder / f"{prefix}-images{sign}idx3-ubyte").write_bytes(idx(images))
    (folder / f"{prefix}-labels{sign}idx1-ubyte").write_bytes(idx(labels))


def opened(folder: Path, **options: object) -> Reader:
    reader = load_reader("mnist", folder, options, ALONE)
    reader.open(["image", "label"])
    return reader


def test_a_folder_with_both_sets_and_one_with_either(tmp_path: Path) -> None:
    write(tmp_path / "both", "train", 6)
    write(tmp_path / "both", "t10k", 3, first_label=5, dot=True)
    write(tmp_path / "test", "t10k", 3)
    assert len(opened(tmp_path / "both")) == 6
    test = opened(tmp_path / "both", split="test")
    assert test.read(slice(0, 3), ["label"])["label"].tolist() == [5, 6, 7]
    assert test.read(slice(0, 3), ["image"])["image"].shape == (3, 5, 4, 1)
    assert len(opened(tmp_path / "test")) == 3
    with pytest.raises(InputError, match=r'split="val"; allowed are "train", "test"'):
        opened(tmp_path / "both", split="val")


def test_a_missing_file(tmp_path: Path) -> None:
    write(tmp_path / "data", "train", 6)
    (tmp_path / "data" / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(InputError, match=r"train-labels-idx1-ubyte is missing \(or the same name with \.gz\)"):
        opened(tmp_path / "data")


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: data[:9]])
@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"])
@pytest.mark.parametrize("compress", [False, True])
def test_a_torn_file(tmp_path: Path, change, name: str, compress: bool) -> None:
    write(tmp_path / "data", "train", 6)
    path = tmp_path / "data" / name
    data = change(path.read_bytes())
    path.unlink()
    if compress:
        path = path.with_name(name + ".gz")
        data = gzip.compress(data)
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}\S* (is torn|is no idx file)"):
        opened(tmp_path / "data")


def test_a_compressed_file_that_was_cut_off(tmp_path: Path) -> None:
    write(tmp_path / "data", "train", 600)
    path = tmp_path / "data" / "train-labels-idx1-ubyte"
    (tmp_path / "data" / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(path.read_bytes())[:-20])
    path.unlink()
    with pytest.raises(InputError, match=r"train-labels-idx1-ubyte\.gz is torn"):
        opened(tmp_path / "data")


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("train-images-idx3-ubyte", b"\x00\x00\x08\x01"),  # labels under the name of images
        ("train-labels-idx1-ubyte", b"\x00\x00\x08\x03"),
        ("train-images-idx3-ubyte", b"\x00\x00\x0d\x03"),  # floats
        ("train-images-idx3-ubyte", b"\x1f\x8b\x08\x00"),  # compressed under the plain name
    ],
)
def test_another_magic_number(tmp_path: Path, name: str, begin: bytes) -> None:
    write(tmp_path / "data", "train", 6)
    path = tmp_path / "data" / name
    path.write_bytes(begin + path.read_bytes()[4:])
    with pytest.raises(InputError, match=rf"{name} is no idx file of .*begins with {begin.hex()}"):
        opened(tmp_path / "data")


def test_more_images_than_labels(tmp_path: Path) -> None:
    write(tmp_path / "data", "train", 6)
    write(tmp_path / "other", "train", 5)
    labels = "train-labels-idx1-ubyte"
    (tmp_path / "data" / labels).write_bytes((tmp_path / "other" / labels).read_bytes())
    with pytest.raises(InputError, match=r"has 6 images, and train-labels-idx1-ubyte has 5 labels"):
        opened(tmp_path / "data")


def test_no_images(tmp_path: Path) -> None:
    write(tmp_path / "data", "train", 0)
    with pytest.raises(InputError, match="holds no images"):
        opened(tmp_path / "data")
