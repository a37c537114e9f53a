from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.choice import load_reader, recognised
from drivetrain.training.process import Process
from drivetrain.training.reader import Reader

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


def write(folder: Path, *names: str, num_rows: int = 2) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        (folder / name).write_bytes((bytes([number]) + bytes(3072)) * num_rows)
    return folder


TRAIN = [f"data_batch_{number}.bin" for number in range(1, 6)]


def opened(folder: Path, **options: object) -> Reader:
    reader = load_reader("cifar10", folder, options, ALONE)
    reader.open(["image", "label"])
    return reader


def test_a_folder_with_both_sets_and_the_archives_own_folder(tmp_path: Path) -> None:
    write(tmp_path / "data" / "cifar-10-batches-bin", *TRAIN)
    write(tmp_path / "data" / "cifar-10-batches-bin", "test_batch.bin", num_rows=3)
    assert recognised(tmp_path / "data") == "cifar10"
    assert len(opened(tmp_path / "data")) == 10
    assert opened(tmp_path / "data").shards == [2, 2, 2, 2, 2]
    assert len(opened(tmp_path / "data", split="test")) == 3
    write(tmp_path / "test", "test_batch.bin")
    assert len(opened(tmp_path / "test")) == 2


def test_a_missing_file(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", *TRAIN)
    (folder / TRAIN[2]).unlink()
    with pytest.raises(InputError, match=r"data_batch_3\.bin is missing"):
        opened(folder)


@pytest.mark.parametrize("size", [0, 3072, 2 * 3073 - 1, 2 * 3073 + 5])
def test_a_torn_file(tmp_path: Path, size: int) -> None:
    folder = write(tmp_path / "data", *TRAIN)
    (folder / TRAIN[4]).write_bytes(bytes(size))
    with pytest.raises(InputError, match=rf"data_batch_5\.bin is torn: {size} bytes"):
        opened(folder)


def test_the_python_version_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    (folder / "data_batch_1").write_bytes(b"a pickle")
    with pytest.raises(InputError, match=r"It has the Python version; give the binary one"):
        opened(tmp_path / "data")


def test_rows_are_located_in_their_file(tmp_path: Path) -> None:
    reader = opened(write(tmp_path / "data", *TRAIN))
    assert reader.locate(5).endswith("data_batch_3.bin, row 2")
    assert reader.read(np.array([9, 0, 5]), ["label"])["label"].tolist() == [4, 0, 2]
