"""NumPy archives (`numpy.savez`, `numpy.savez_compressed`): arrays of equal length, each a column.

Arrays that are stored as they are get mapped where they lie in the archive; compressed ones are unpacked once a host.
An archive with `x_train`, `y_train`, `x_test` and `y_test`, as Keras has them, is read as the columns `x` and `y`.
"""

from __future__ import annotations

import struct
import sys
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training import reader
from drivetrain.training.errors import unknown_name
from drivetrain.training.input_pipeline.content import content_hash
from drivetrain.training.input_pipeline.decoded import kept_arrays, origin
from drivetrain.training.input_pipeline.host_memory import HostArrays, map_file
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, Indices

LABELS = ("label", "labels", "y", "target", "targets")
_SPLITS = ("train", "test")


def recognises(folder: Path) -> bool:
    return any(folder.glob("*.npz"))


@dataclass(frozen=True, kw_only=True)
class Options:
    label: str = ""
    """The array to predict; empty: the one called label, labels, y, target or targets."""
    unlabelled: bool = False
    """Read data that has no labels."""
    file: str = ""
    """The archive, where the folder has several."""
    split: Literal["train", "test"] = "train"
    """train or test, of an archive whose arrays are called so (`x_train`, `x_test`)."""


@dataclass(frozen=True)
class _Member:
    """An array in the archive."""

    file: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int | None
    """The start of its values in the archive; None if they are compressed."""


class Reader(reader.Reader):
    options: Options

    def __init__(self, folder: Path, options: Options, process: Process) -> None:
        super().__init__(folder, options, process)
        self._path = _archive(folder, options.file)
        try:
            with zipfile.ZipFile(self._path) as archive:
                members = {info.filename: _member(archive, info, self._path) for info in archive.infolist()}
        except (zipfile.BadZipFile, EOFError, zlib.error, OSError, ValueError, struct.error) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{self._path} is torn or no archive of arrays ({error}). Copy it again.") from None
        arrays = {name.removesuffix(".npy"): member for name, member in members.items()}
        self._members = _of_split(arrays, options.split)
        if not self._members:
            raise InputError(f"{self._path} holds no arrays.")
        self.column_names = tuple(self._members)
        self._num_rows = self._check_lengths()
        self.label = self._label()

    def __len__(self) -> int:
        return self._num_rows

    def open(self, names: Sequence[str]) -> None:
        self.check_columns(names)
        self.content_hash = content_hash(self._path.parent, [self._path], self.process)
        chosen = {name: self._members[name] for name in names}
        self._check_sums(chosen)
        packed = {name: member for name, member in chosen.items() if member.offset is None or member.fortran}

        def fill(filling: HostArrays) -> None:
            for number, (name, member) in enumerate(packed.items()):
                if number % filling.count == filling.number:
                    filling[name][...] = _unpacked(self._path, member)

        shapes = {name: (member.shape, member.dtype) for name, member in packed.items()}
        files = {name: member.file for name, member in packed.items()}
        made_of = origin(self.content_hash, {"files": files}, sys.modules[__name__])
        unpacked = kept_arrays(self.process, shapes, made_of, fill).arrays if packed else {}
        self._columns: dict[str, NDArray[Any]] = {
            name: unpacked[name]
            if name in packed
            else map_file(self._path, member.dtype, member.shape, offset=member.offset or 0)
            for name, member in chosen.items()
        }

    def read(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        columns = {name: self._columns[name] for name in names}
        if isinstance(indices, slice):
            return {name: column[indices] for name, column in columns.items()}
        return {name: column.take(indices, axis=0) for name, column in columns.items()}

    def locate(self, row: int) -> str:
        return f"{self._path}, row {row + 1}"

    def _label(self) -> str | None:
        if self.options.label:
            if self.options.label not in self._members:
                raise unknown_name("array", self.options.label, self._members, advice=f"({self._path})")
            return self.options.label
        found = next((name for name in LABELS if name in self._members), None)
        if found is None and not self.options.unlabelled:
            raise InputError(
                f"{self._path} has no array {', '.join(LABELS[:-1])} or {LABELS[-1]}. Say which with the option label; "
                f"available: {', '.join(self._members)}."
            )
        return found

    def _check_lengths(self) -> int:
        for name, member in self._members.items():
            if not member.shape:
                raise InputError(f"{self._path}: array {name!r} is a single value. Allowed are arrays with a row each.")
        lengths = {name: member.shape[0] for name, member in self._members.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise InputError(f"{self._path}: the arrays have different numbers of rows ({shown}).")
        num_rows = next(iter(lengths.values()))
        if not num_rows:
            raise InputError(f"{self._path} holds no rows.")
        return num_rows

    def _check_sums(self, members: dict[str, _Member]) -> None:
        """Hold the stored arrays against the checksums of the archive; unpacking the others does it too."""
        mapped = [member.file for member in members.values() if member.offset is not None and not member.fortran]
        for file in mapped[self.process.local_rank :: self.process.local_world_size]:
            try:
                with zipfile.ZipFile(self._path) as archive, archive.open(file) as stream:
                    while stream.read(1 << 20):
                        pass
            except (zipfile.BadZipFile, EOFError) as error:
                raise InputError(f"{self._path} is torn ({error}). Copy it again.") from None
        self.process.barrier()


def _archive(folder: Path, file: str) -> Path:
    available = sorted(path.name for path in folder.glob("*.npz"))
    if file:
        if file not in available:
            raise unknown_name("archive", file, available, advice=f"({folder})")
        return folder / file
    if len(available) != 1:
        found = ", ".join(available) or "none"
        raise InputError(f"{folder} has {found}; exactly one archive (.npz) is read. Say which with the option file.")
    return folder / available[0]


def _of_split(arrays: dict[str, _Member], split: str) -> dict[str, _Member]:
    """`x_train` as `x`, where all arrays are called so; else the arrays as they are called."""
    if not arrays or not all(name.endswith(tuple(f"_{word}" for word in _SPLITS)) for name in arrays):
        return arrays
    ending = f"_{split}"
    return {name.removesuffix(ending): member for name, member in arrays.items() if name.endswith(ending)}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> _Member:
    if not info.filename.endswith(".npy"):
        raise InputError(f"{path}: {info.filename!r} is no array (.npy).")
    with archive.open(info) as stream:
        version = npy.read_magic(stream)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
        if read_header is None:
            raise InputError(f"{path}: {info.filename!r} has array format {version}; 1.0 and 2.0 are read.")
        shape, fortran, dtype = read_header(stream)
        header_bytes = stream.tell()
    if dtype.hasobject:
        raise InputError(f"{path}: array {info.filename.removesuffix('.npy')!r} holds Python objects, not numbers.")
    offset = None
    if info.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as stream:
            # The local header's lengths of name and extra field are its own, not those of the archive's directory.
            stream.seek(info.header_offset + 26)
            name_bytes, extra_bytes = struct.unpack("<HH", stream.read(4))
        offset = info.header_offset + 30 + name_bytes + extra_bytes + header_bytes
        if info.header_offset + 30 + name_bytes + extra_bytes + info.file_size > path.stat().st_size:
            raise InputError(f"{path} is torn: {info.filename!r} goes beyond its end. Copy it again.")
    return _Member(info.filename, shape, dtype, fortran and len(shape) > 1, offset)


def _unpacked(path: Path, member: _Member) -> NDArray[Any]:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member.file) as stream:
            return npy.read_array(stream, allow_pickle=False)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise InputError(f"{path} is torn: {member.file!r} cannot be unpacked ({error}). Copy it again.") from None
