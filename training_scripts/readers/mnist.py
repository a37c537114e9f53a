"""MNIST's idx files, plain or compressed with gzip: `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-...`.

The format (big endian): two zero bytes, a byte for the type (8: unsigned bytes), a byte for the number of dimensions,
a 32-bit size for each dimension, the values. Y. LeCun, C. Cortes and C. Burges, http://yann.lecun.com/exdb/mnist/.
Fashion-MNIST and others come in the same files.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training import reader
from drivetrain.training.input_pipeline.content import content_hash
from drivetrain.training.input_pipeline.host_memory import host_arrays, map_file
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, Indices

_FILE = re.compile(r"(?P<set>train|t10k)-(?P<what>images|labels)[-.]idx[13]-ubyte(?:\.gz)?")
_SETS = {"train": "train", "test": "t10k"}


def recognises(folder: Path) -> bool:
    return any(_FILE.fullmatch(path.name) for path in folder.iterdir())


@dataclass(frozen=True, kw_only=True)
class Options:
    split: Literal["train", "test"] = "train"
    """train or test, in a folder that has the files of both; a folder with one of them is read as what it has."""


class Reader(reader.Reader):
    """`image`: uint8 [rows, height, width, 1]; `label`: int64 [rows]."""

    column_names = ("image", "label")
    label = "label"

    def __init__(self, folder: Path, options: Options, process: Process) -> None:
        super().__init__(folder, options, process)
        found = {match["set"] for path in folder.iterdir() if (match := _FILE.fullmatch(path.name))}
        chosen = found.pop() if len(found) == 1 else _SETS[options.split]
        self._files = [_only(folder, chosen, what) for what in ("images", "labels")]
        self._shapes = [_shape(path, number) for path, number in zip(self._files, (3, 1), strict=True)]
        images, labels = self._shapes
        if images[0] != labels[0]:
            raise InputError(
                f"{self._files[0]} has {images[0]} images, and {self._files[1].name} has {labels[0]} labels. "
                "Copy the data again."
            )
        if not images[0]:
            raise InputError(f"{self._files[0]} holds no images.")
        self._columns: dict[str, NDArray[Any]] = {}

    def __len__(self) -> int:
        return self._shapes[0][0]

    def open(self, names: Sequence[str]) -> None:
        self.check_columns(names)
        self.content_hash = content_hash(self.folder, self._files, self.process)
        if all(path.suffix != ".gz" for path in self._files):
            images, labels = (
                map_file(path, np.uint8, shape, offset=_header_bytes(shape))
                for path, shape in zip(self._files, self._shapes, strict=True)
            )
        else:
            shapes = {str(number): (shape, np.uint8) for number, shape in enumerate(self._shapes)}
            with host_arrays(self.process, shapes) as filling:
                if filling.number == 0:
                    for number, path in enumerate(self._files):
                        filling[str(number)][...] = _values(path, self._shapes[number])
            images, labels = filling["0"], filling["1"]
        self._columns = {"image": images[..., np.newaxis], "label": labels.astype(np.int64)}

    def read(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        return {name: self._columns[name][indices] for name in names}

    def locate(self, row: int) -> str:
        return f"{self._files[1]}, row {row + 1}"


def _only(folder: Path, chosen: str, what: str) -> Path:
    """The file of one set. The plain one where the compressed one lies beside it."""
    matches = [(path, _FILE.fullmatch(path.name)) for path in folder.iterdir()]
    files = sorted(path for path, found in matches if found and found["set"] == chosen and found["what"] == what)
    if not files:
        number = 3 if what == "images" else 1
        raise InputError(f"{folder / f'{chosen}-{what}-idx{number}-ubyte'} is missing (or the same name with .gz).")
    return files[0]


def _header_bytes(shape: Sequence[int]) -> int:
    return 4 + 4 * len(shape)


def _shape(path: Path, dimensions: int) -> tuple[int, ...]:
    """The sizes in the header of a file.

    Raises:
        InputError: the file is not what its name says, or has more or fewer bytes than its header tells.
    """
    size = 4 + 4 * dimensions
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            header = stream.read(size)
    except (EOFError, zlib.error, OSError) as error:
        raise InputError(f"{path} is torn or no gzip file ({error}). Copy it again.") from None
    expected = bytes((0, 0, 8, dimensions))
    if len(header) < size or header[:4] != expected:
        raise InputError(
            f"{path} is no idx file of {dimensions}-dimensional unsigned bytes: it begins with {header[:4].hex()} and "
            f"not with {expected.hex()}. Copy it again."
        )
    shape = tuple(int(length) for length in np.frombuffer(header, ">u4", dimensions, 4))
    if path.suffix != ".gz" and path.stat().st_size != size + math.prod(shape):
        raise InputError(
            f"{path} is torn: {path.stat().st_size} bytes, and {size + math.prod(shape)} by its header. Copy it again."
        )
    return shape


def _values(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            data = stream.read(_header_bytes(shape) + math.prod(shape) + 1)
    except (EOFError, zlib.error, OSError) as error:
        raise InputError(f"{path} is torn ({error}). Copy it again.") from None
    values = np.frombuffer(data, np.uint8, offset=_header_bytes(shape))
    if values.size != math.prod(shape):
        raise InputError(f"{path} is torn: it has fewer or more values than the {math.prod(shape)} of its header.")
    return values.reshape(shape)
