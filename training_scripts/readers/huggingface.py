"""A data set that Hugging Face's `datasets` has saved (`save_to_disk`): pictures, classes, numbers and texts.

The library is not needed. A folder has `dataset_info.json` (the columns' features), `state.json` (its files in order)
and `data-*.arrow` (Arrow streams, which are mapped where they lie); that of a DatasetDict has `dataset_dict.json` and
such a folder a split. https://huggingface.co/docs/datasets/v5.2.0/package_reference/main_classes#datasets.Dataset.save_to_disk
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training import reader
from drivetrain.training.errors import unknown_name
from drivetrain.training.input_pipeline.content import content_hash
from drivetrain.training.input_pipeline.picture_rows import PictureOptions, PictureRows
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, Indices

_DICT, _STATE, _INFO = "dataset_dict.json", "state.json", "dataset_info.json"
_SPLITS = {"train": ("train",), "test": ("validation", "valid", "val", "test")}
_LABELS = ("label", "labels", "y", "target", "targets")
_NUMBERS = ("Value", "List", "LargeList", "Sequence", "Array2D", "Array3D", "Array4D", "Array5D")
_READ = "numbers, truth values and texts (Value), lists of numbers of one length, ClassLabel and Image"


def recognises(folder: Path) -> bool:
    return (folder / _DICT).is_file() or all((folder / name).is_file() for name in (_STATE, _INFO))


@dataclass(frozen=True, kw_only=True)
class Options(PictureOptions):
    label: str = ""
    """The column to predict; empty: the only ClassLabel, else the one called label, labels, y, target or targets."""
    unlabelled: bool = False
    """Read data that has no labels."""
    split: Literal["train", "test"] = "train"
    """train or test (validation, valid, val or test), of a folder with a DatasetDict."""


class Reader(reader.Reader):
    """Pictures: uint8 [rows, size, size, channels]; ClassLabel: int64 [rows]; numbers in their own type, [rows], and
    lists and arrays of them [rows, ...]; texts: objects [rows].

    `statistics[label]["classes"]` has the names of the classes.
    """

    options: Options

    def __init__(self, folder: Path, options: Options, process: Process) -> None:
        super().__init__(folder, options, process)
        self._top = _top(folder, options.split)
        features: Any = _json(self._top / _INFO).get("features")
        files: Any = _json(self._top / _STATE).get("_data_files")
        if not isinstance(features, dict) or not features or not isinstance(files, list) or not files:
            raise InputError(f"{self._top} is no saved data set: {_INFO} names no features, or {_STATE} no files.")
        if _json(self._top / _STATE).get("_indices_data_files"):
            raise InputError(
                f"{self._top} is a selection of rows. Save ds.flatten_indices() with datasets 2.4 or newer."
            )
        self._features: dict[str, Any] = features
        self._files = [self._top / Path(str(each.get("filename", ""))).name for each in files]
        self.column_names = tuple(name for name, feature in features.items() if _kind(feature))
        self.label = self._label()
        if self.label and (names := features[self.label].get("names")):
            self.num_classes, self.statistics = len(names), {self.label: {"classes": list(names)}}
        tables = [_table(path, features) for path in self._files]
        self._ends = np.cumsum([len(table) for table in tables], dtype=np.int64)
        if not len(self):
            raise InputError(f"{self._top} holds no rows.")
        import pyarrow as pa

        self._table: Any = pa.concat_tables(tables)
        self._columns: dict[str, NDArray[Any] | PictureRows] = {}

    def __len__(self) -> int:
        return int(self._ends[-1])

    def open(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self._features and name not in self.column_names:
                kind = self._features[name]
                said = kind.get("_type", kind) if isinstance(kind, dict) else kind
                raise InputError(f"{self._top}: column {name!r} is of {said!s:.60}. What is read: {_READ}.")
        self.check_columns(names)
        pictures = [name for name in names if _kind(self._features[name]) == "Image"]
        beside = sorted({path for name in pictures for path in self._beside(name)})
        files = content_hash(self._top, [*self._files, *beside], self.process)
        self.content_hash = hashlib.sha256(f"{files}\n{json.dumps(self._features)}".encode()).hexdigest()
        for name in names:
            if name in pictures:
                rows = PictureRows(len(self), self.options, self.process)
                rows.open(partial(self._picture, name), self.content_hash, sys.modules[__name__], column=name)
                self._columns[name] = rows
            else:
                self._columns[name] = self._numbers(name)

    def read(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        def column(name: str) -> NDArray[Any]:
            found = self._columns[name]
            if isinstance(found, PictureRows):
                return found.read(partial(self._picture, name), indices)
            return found[indices].copy() if isinstance(indices, slice) else found[indices]

        return {name: column(name) for name in names}

    def locate(self, row: int) -> str:
        file = int(np.searchsorted(self._ends, row, side="right"))
        return f"{self._files[file]}, row {row - int(self._ends[file - 1] if file else 0) + 1}"

    def _label(self) -> str | None:
        if self.options.label:
            if self.options.label not in self.column_names:
                raise unknown_name("column", self.options.label, self.column_names, advice=f"({self._top})")
            return self.options.label
        classes = [name for name in self.column_names if _kind(self._features[name]) == "ClassLabel"]
        named = [name for name in _LABELS if name in self.column_names]
        found = classes if len(classes) == 1 else named
        if not found and not self.options.unlabelled:
            raise InputError(
                f"{self._top}: which column is to be predicted? It has {len(classes)} of ClassLabel, and none called "
                f"{', '.join(_LABELS[:-1])} or {_LABELS[-1]}. Give the option label: {', '.join(self.column_names)}."
            )
        return found[0] if found else None

    def _numbers(self, name: str) -> NDArray[Any]:
        """All rows of a column that is no picture."""
        import pyarrow as pa

        column: Any = self._table[name].combine_chunks()
        shape: tuple[int, ...] = (len(column),)
        while True:
            if isinstance(column, pa.ChunkedArray):
                column = column.combine_chunks()
            if isinstance(column, pa.ExtensionArray):  # Array2D and its like, where `datasets` is loaded
                column = column.storage
            if column.null_count:
                missing = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                row = missing // int(np.prod(shape[1:], dtype=np.int64))
                raise InputError(f"{self.locate(row)}: {name} is missing. Fill it in, or leave the row out.")
            if not hasattr(column, "flatten") or not pa.types.is_nested(column.type):
                break
            size = self._size(name, column)
            column, shape = column.flatten(), (*shape, size)
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values.reshape(shape)

    def _size(self, name: str, lists: Any) -> int:
        """How long each of the lists is.

        Raises:
            InputError: they are not of one length.
        """
        import pyarrow as pa

        if pa.types.is_fixed_size_list(lists.type):
            return int(lists.type.list_size)
        sizes = lists.value_lengths().to_numpy()
        other = np.flatnonzero(sizes != sizes[0])
        if other.size:
            row = int(other[0]) * len(self) // len(lists)
            raise InputError(
                f"{self.locate(row)}: {name} has {sizes[other[0]]} values; rows before have {sizes[0]}. Allowed are "
                "lists of one length: fill up the shorter ones."
            )
        return int(sizes[0])

    def _picture(self, name: str, row: int) -> tuple[Path | IO[bytes], str]:
        value = self._table[name][row].as_py()
        if value is None:
            raise InputError(f"{self.locate(row)}: {name} is missing. Fill it in, or leave the row out.")
        if value["bytes"] is None:
            return self._file_beside(name, row, value["path"]), self.locate(row)
        return io.BytesIO(value["bytes"]), self.locate(row)

    def _beside(self, name: str) -> list[Path]:
        """The picture files that the data set names without holding them."""
        import pyarrow.compute

        pc: Any = pyarrow.compute
        column = self._table[name]
        outside = pc.and_(column.is_valid(), pc.struct_field(column, "bytes").is_null())
        rows = np.flatnonzero(outside.to_numpy())
        return [self._file_beside(name, int(row), column[int(row)].as_py()["path"]) for row in rows]

    def _file_beside(self, name: str, row: int, path: str | None) -> Path:
        found = self._top / (path or "")
        if not path or not found.resolve().is_relative_to(self._top.resolve()) or not found.is_file():
            raise InputError(
                f"{self.locate(row)}: {name} is not in the data set but at {path!r}, which is no file below "
                f"{self._top}. Save it again with datasets 2.4 or newer, which puts pictures inside."
            )
        return found


def _kind(feature: Any) -> str:
    """Image, ClassLabel, or Value for what numpy has a type for; "" for what is not read."""
    kind = feature.get("_type") if isinstance(feature, dict) else None
    if kind in ("Image", "ClassLabel"):
        return str(kind)
    if kind not in _NUMBERS:
        return ""
    if "feature" in feature:  # a list: of numbers, or of lists of them
        inner = feature["feature"]
        return "Value" if _kind(inner) == "Value" and inner.get("dtype", "") not in ("string", "large_string") else ""
    dtype = str(feature.get("dtype"))
    return "Value" if dtype.startswith(("int", "uint", "float", "bool", "string", "large_string")) else ""


def _top(folder: Path, split: str) -> Path:
    """The folder of the data set: `folder`, or that of the split below it."""
    if not (folder / _DICT).is_file():
        if not recognises(folder):
            raise InputError(f"{folder} is no folder of save_to_disk: it lacks {_DICT}, or {_STATE} and {_INFO}.")
        return folder
    splits: Any = _json(folder / _DICT).get("splits")
    for name in _SPLITS[split]:
        if isinstance(splits, list) and name in splits:
            return folder / name
    held, wanted = ", ".join(map(str, splits or ())), " or ".join(_SPLITS[split])
    raise InputError(f"{folder} has {held} and no {wanted}. Name the folder to read.")


def _json(path: Path) -> dict[str, Any]:
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}). Copy the data again.") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} is no JSON object. Copy the data again.")
    return found


def _table(path: Path, features: dict[str, Any]) -> Any:
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
            table = stream.read_all()
    except (OSError, pa.ArrowException) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path} is torn or no Arrow stream ({reason:.200}). Copy the data again.") from None
    if lacking := [name for name in features if name not in table.column_names]:
        raise InputError(f"{path} lacks the columns {', '.join(lacking)} of {_INFO}. Copy the data again.")
    return table.replace_schema_metadata(None)
