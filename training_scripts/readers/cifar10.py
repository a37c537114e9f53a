"""CIFAR-10's binary version: `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`.

A record is a byte for the label and 3,072 for the pixels: 32x32 red ones row by row, then green, then blue.
A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009; https://www.cs.toronto.edu/~kriz/cifar.html.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training import reader
from drivetrain.training.input_pipeline.content import content_hash
from drivetrain.training.input_pipeline.host_memory import map_file
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, Indices

SIDE, CHANNELS, CLASSES = 32, 3, 10
RECORD = 1 + CHANNELS * SIDE * SIDE
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = ("test_batch.bin",)
_INNER = "cifar-10-batches-bin"  # the folder in the archive


def recognises(folder: Path) -> bool:
    return any((inside / name).is_file() for inside in (folder, folder / _INNER) for name in (*TRAIN, *TEST))


@dataclass(frozen=True, kw_only=True)
class Options:
    split: Literal["train", "test"] = "train"
    """train or test, in a folder that has the files of both; a folder with one of them is read as what it has."""


class Reader(reader.Reader):
    """`image`: uint8 [rows, 32, 32, 3]; `label`: int64 [rows]."""

    column_names = ("image", "label")
    label = "label"
    num_classes = CLASSES

    def __init__(self, folder: Path, options: Options, process: Process) -> None:
        super().__init__(folder, options, process)
        if not recognises(folder):
            advice = " It has the Python version; give the binary one." if list(folder.rglob("data_batch_1")) else ""
            raise InputError(
                f"{folder} has no {TRAIN[0]} and no {TEST[0]}: it is not CIFAR-10's binary version.{advice}"
            )
        self._inside = folder if any((folder / name).is_file() for name in (*TRAIN, *TEST)) else folder / _INNER
        train, test = ([self._inside / name for name in names] for names in (TRAIN, TEST))
        # Part of the training files is a torn copy; none of them is a folder for testing.
        has_train, has_test = (any(path.is_file() for path in files) for files in (train, test))
        self._files = test if not has_train or (has_test and options.split == "test") else train
        self._rows = [_num_records(path) for path in self._files]
        self._starts = np.cumsum([0, *self._rows])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def shards(self) -> Sequence[int]:
        return self._rows

    def open(self, names: Sequence[str]) -> None:
        self.check_columns(names)
        self.content_hash = content_hash(self._inside, self._files, self.process)
        self._records = [
            map_file(path, np.uint8, (rows, RECORD)) for path, rows in zip(self._files, self._rows, strict=True)
        ]

    def read(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        if isinstance(indices, slice):
            indices = np.arange(*indices.indices(len(self)), dtype=np.int64)
        file = np.searchsorted(self._starts, indices, side="right") - 1
        records = np.empty((len(indices), RECORD), dtype=np.uint8)
        for number in np.unique(file).tolist():
            chosen = np.flatnonzero(file == number)
            records[chosen] = self._records[number].take(indices[chosen] - self._starts[number], axis=0)
        images = records[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)
        columns = {"image": images, "label": records[:, 0].astype(np.int64)}
        return {name: columns[name] for name in names}

    def locate(self, row: int) -> str:
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return f"{self._files[number]}, row {row - int(self._starts[number]) + 1}"


def _num_records(path: Path) -> int:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise InputError(f"{path} is missing. Copy the data again.") from None
    if not size or size % RECORD:
        raise InputError(f"{path} is torn: {size} bytes are no whole number of records of {RECORD}. Copy it again.")
    return size // RECORD
