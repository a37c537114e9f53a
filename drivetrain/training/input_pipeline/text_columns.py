"""The rows of JSON Lines, Parquet files, Arrow streams, or plain texts (a text a line) in a folder, by column."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name
from drivetrain.training.input_pipeline.prepared import MANIFEST_FILE, PreparedData

# (Arrow streams are what `datasets` saves.)
ENDINGS = (".arrow", ".jsonl", ".parquet", ".txt")
_SPLITS = {"train": ("train",), "test": ("test", "validation", "val")}


class TextColumns:
    """
    Attributes:
        top: the folder that has the files: the given one, or the one of the split inside.
        files: in the order of the rows.

    Raises:
        InputError: no file, files of several formats, or one that cannot be read.
    """

    def __init__(self, folder: Path, split: str) -> None:
        inside = [folder / name for name in _SPLITS.get(split, ()) if (folder / name).is_dir()]
        self.top = folder if _files(folder) or not inside else inside[0]
        self.files = _files(self.top)
        if not self.files:
            raise InputError(
                f"{folder} has no file {', '.join(f'*{ending}' for ending in ENDINGS)}. Give another folder."
            )
        endings = {path.suffix for path in self.files}
        if len(endings) > 1:
            raise InputError(f"{self.top} has files of several formats ({', '.join(sorted(endings))}). Keep one.")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._table.column_names)

    def __len__(self) -> int:
        return len(self._table)

    def check(self, name: str) -> None:
        """
        Raises:
            InputError: there is no such column, with the closest match.
        """
        if name not in self.names:
            raise unknown_name("column", name, self.names, advice=f"({self.top})")

    def texts(self, name: str, rows: Sequence[int], *, words: bool = False) -> list[Any]:
        """
        Raises:
            InputError: a row that has no text there (`words`: no list of texts).
        """
        values = self._table[name].take(list(rows)).to_pylist()
        for row, value in zip(rows, values, strict=True):
            fits = isinstance(value, list) and all(isinstance(word, str) for word in value) if words else None
            if not (isinstance(value, str) if fits is None else fits):
                wanted = "a list of words" if words else "a text"
                raise InputError(f"{self.locate(row)}: {name} is {value!r:.60}; allowed is {wanted}.")
        return values

    def column(self, name: str) -> NDArray[Any]:
        """All rows, numbers as numpy has them; others as objects."""
        if name not in self._columns:
            column = self._table[name]
            if column.null_count:
                first = next(row for row, value in enumerate(column.to_pylist()) if value is None)
                raise InputError(f"{self.locate(first)}: {name} is missing; {column.null_count} such rows.")
            values = column.to_numpy()
            if values.dtype.kind not in "iufb":
                listed, values = column.to_pylist(), np.empty(len(column), dtype=object)
                values[:] = listed
            self._columns[name] = values
        return self._columns[name]

    def distinct(self, name: str, *, nested: bool) -> list[Any]:
        """The values that occur, or with `nested` those inside the lists of the rows."""
        values = self.column(name)
        if not nested:
            return np.unique(values).tolist() if values.dtype != object else list(dict.fromkeys(values.tolist()))
        for row, value in enumerate(values):
            if not isinstance(value, list):
                raise InputError(f"{self.locate(row)}: {name} is {value!r:.60}; allowed is a list, a label a word.")
        return list(dict.fromkeys(each for value in values for each in value))

    def locate(self, row: int) -> str:
        file = int(np.searchsorted(self._ends, row, side="right"))
        start = int(self._ends[file - 1]) if file else 0
        what = "row" if self.files[file].suffix in (".arrow", ".parquet") else "line"
        return f"{self.files[file]}, {what} {row - start + 1}"

    @cached_property
    def _columns(self) -> dict[str, NDArray[Any]]:
        return {}

    @cached_property
    def _tables(self) -> list[Any]:
        tables = [_read(path) for path in self.files]
        for path, table in zip(self.files, tables, strict=True):
            if table.column_names != tables[0].column_names:
                raise InputError(
                    f"{path} has columns {', '.join(table.column_names)}; {self.files[0].name} has "
                    f"{', '.join(tables[0].column_names)}. All files need the same."
                )
        if not any(len(table) for table in tables):
            raise InputError(f"{self.top} has no rows.")
        return tables

    @cached_property
    def _table(self) -> Any:
        import pyarrow as pa

        try:
            return pa.concat_tables(self._tables, promote_options="permissive").combine_chunks()
        except pa.ArrowException as error:
            raise InputError(f"{self.top}: the files' columns are of different types ({str(error)[:200]}).") from None

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum([len(table) for table in self._tables], dtype=np.int64)


def _files(folder: Path) -> list[Path]:
    if (folder / MANIFEST_FILE).is_file():  # prepared data, whose shards lie in the folder of their version
        return [folder / shard.file for shard in PreparedData(folder).shards]
    return sorted(path for path in folder.iterdir() if path.suffix in ENDINGS and path.is_file())


def _read(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.json
    import pyarrow.parquet

    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path)
        if path.suffix == ".arrow":
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
                return stream.read_all().replace_schema_metadata(None)
        if path.suffix == ".jsonl":
            # A line is read whole: blocks are as large as the file.
            options = pyarrow.json.ReadOptions(block_size=max(1 << 20, path.stat().st_size + 1))
            return pyarrow.json.read_json(path, read_options=options)
        return pa.table({"text": path.read_text(encoding="utf-8").splitlines()})
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start + 1}). Convert it, or copy it again.") from None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path} cannot be read ({reason[:200]}). Correct it, or copy the data again.") from None
