"""Read what prepare_data wrote: Parquet shards and the manifest that vouches for them.

Every shard is checked against the manifest before its rows are used, so that a torn copy or a changed file is an
error that names the shard and never a model that is quietly worse.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.data import fitted
from drivetrain.data.manifest import FORMATS, MANIFEST_FILE, PLAIN_NAME, Shard, check_shard
from drivetrain.training.reader import Columns, check_columns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MANIFEST_FILE", "Columns", "PreparedData", "Shard"]


class PreparedData:
    """A folder of Parquet shards with its manifest.

    Raises:
        InputError: the folder has no manifest, or one that this program cannot read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / MANIFEST_FILE
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{folder} is not prepared data: no {MANIFEST_FILE}. Run prepare_data first.") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not readable as JSON: {error}. Prepare the data again.") from None
        try:
            if manifest["format"] not in FORMATS:
                raise InputError(f"{path} has format {manifest['format']!r}; this program reads formats 1 and 2.")
            self.rows = int(manifest["rows"])
            self.label: str | None = manifest["label"]
            self.key: str | None = manifest.get("key")  # (which other writers of the format may not know)
            self.content_hash = str(manifest["content_hash"])
            self.column_names = [str(column["name"]) for column in manifest["schema"]]
            self.types = {str(column["name"]): str(column["type"]) for column in manifest["schema"]}
            """The type of each column as Arrow names it: `int64`, `double`."""
            self.statistics: dict[str, Any] = manifest["statistics"]
            self.leakage: dict[str, Any] = dict(manifest.get("leakage", {}))
            """The rows that train has, too, as far as prepare_data looked (drivetrain/data/leakage.py)."""
            self.keys: dict[str, Any] = dict(manifest.get("keys", {}))
            """Hashes of keys (drivetrain/data/key_sample.py)."""
            self.fitted: dict[str, Any] = dict(manifest.get("fitted", {}))
            """Transforms that `values` applies (drivetrain/data/fitted.py): those of the manifest, unless replaced."""
            self.missing: frozenset[str] = frozenset()
            """Columns whose empty cells are values: NaN among numbers, which are float64 then, and None among texts."""
            self.shards = [
                Shard(str(s["file"]), int(s["rows"]), int(s["bytes"]), str(s["sha256"])) for s in manifest["shards"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is no manifest of prepared data ({error!r}). Prepare the data again.") from None
        if self.rows == 0:
            raise InputError(f"{folder} holds no rows.")
        # Both become parts of paths.
        strange = [shard.file for shard in self.shards if not PLAIN_NAME.fullmatch(shard.file)]
        if Path(self.content_hash).name != self.content_hash:
            strange.append(self.content_hash)
        for name in strange:
            raise InputError(f"{path} names {name!r}; allowed are plain names in the same folder, or in one below it.")

    def verify(self, shards: Sequence[Shard] | None = None) -> None:
        """Hold shards (all of them unless given) against the manifest's size and checksum.

        Raises:
            InputError: naming the first shard that is missing or differs.
        """
        for shard in self.shards if shards is None else shards:
            check_shard(self.folder / shard.file, shard, advice="Prepare or copy the data again.")

    def read(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The named columns of all shards, in the manifest's order, each an array of shape [rows].

        Raises:
            InputError: a column that is not there, or that has empty values (naming shard and count).
        """
        check_columns(names, self.column_names, self.folder)
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
        for shard in self.shards:
            for piece in self.row_groups(shard, names):
                for name in names:
                    parts[name].append(self.values(piece, name, shard))
        return {name: np.concatenate(arrays) for name, arrays in parts.items()}

    def row_groups(self, shard: Shard, names: Sequence[str], chosen: Sequence[int] | None = None) -> Iterator[pa.Table]:
        """The row groups of a shard one after the other (all of them unless chosen), with the named columns.

        Raises:
            InputError: a shard that has not as many rows as the manifest says.
        """
        import pyarrow.parquet as parquet

        path = self.folder / shard.file
        with parquet.ParquetFile(path, memory_map=True) as file:
            if file.metadata.num_rows != shard.rows:
                raise InputError(f"shard {path} has {file.metadata.num_rows} rows; {MANIFEST_FILE} says {shard.rows}.")
            for group in range(file.num_row_groups) if chosen is None else chosen:
                # No threads: they would take the cores of the other ranks.
                yield file.read_row_group(group, columns=list(names), use_threads=False)

    def values(self, table: pa.Table, name: str, shard: Shard) -> NDArray[Any]:
        """A column of a table as an array of shape [rows], or [rows, length] where it holds lists, as its fitted
        transforms change it.

        Numbers without gaps are a view of Arrow's memory.

        Raises:
            InputError: a column with empty values (naming shard and count), or with lists of different lengths.
        """
        import pyarrow as pa

        column, path = table.column(name), self.folder / shard.file
        state = self.fitted.get("columns", {}).get(name)
        if state and not is_list(column.type):
            return fitted.of_arrow(state, column, f"column {name!r} of shard {path}")
        if name in self.missing and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
            column = column.cast("float64", safe=False)
        if column.null_count and (name not in self.missing or is_list(column.type)):
            fill = f'prepare_data\'s fit=\'[{{"impute": {{"columns": ["{name}"], "with": "median"}}}}]\''
            row = next(number for number, value in enumerate(column) if not value.is_valid)
            first = (  # else of a row group
                f", the first in row {row + 1}{self._key_of(shard, row)}" if len(column) == shard.rows else ""
            )
            raise InputError(
                f"column {name!r} of shard {path} has {column.null_count} empty values{first}. Take these rows out, "
                f"or fill the cells: {fill}."
            )
        if not is_list(column.type):
            return column.to_numpy()
        chunk: Any = pa.concat_arrays(column.chunks)
        inner = chunk.flatten()
        rows = max(1, len(chunk))
        lengths = np.full(1, len(inner)) if pa.types.is_fixed_size_list(chunk.type) else np.diff(chunk.offsets)
        if inner.null_count or len(inner) % rows or (len(lengths) > 1 and (lengths != lengths[0]).any()):
            raise InputError(
                f"column {name!r} of shard {path} has lists with empty values or of different lengths. Allowed are "
                "lists of one length, full of numbers."
            )
        lists = inner.to_numpy(zero_copy_only=False).reshape(len(chunk), len(inner) // rows)
        return fitted.of_lists(state, lists, f"column {name!r} of shard {path}") if state else lists

    def may_lack(self, names: Sequence[str]) -> list[str]:
        """Columns that may have empty cells: those of texts or fractions, and others that have some here."""

        def lacks(name: str) -> bool:
            whole = self.types[name].startswith(("int", "uint", "bool"))
            return not whole or bool(self.statistics.get(name, {}).get("nulls"))

        return [name for name in names if lacks(name)]

    def locate(self, row: int) -> str:
        """The place of row `row` (counted over all shards, from 0) for a message: shard file and row in it, from 1, and
        its key, by which people find it in the table that they have."""
        for shard in self.shards:
            if row < shard.rows:
                return f"{self.folder / shard.file}, row {row + 1}{self._key_of(shard, row)}"
            row -= shard.rows
        raise IndexError(row)

    def _key_of(self, shard: Shard, row: int) -> str:
        if self.key is None or self.key not in self.column_names:
            return ""
        for piece in self.row_groups(shard, [self.key]):
            if row < len(piece):
                return f" ({self.key}={piece.column(0)[row].as_py()!r})"
            row -= len(piece)
        raise IndexError(row)


def is_list(data_type: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_fixed_size_list(data_type) or pa.types.is_list(data_type)


def keys_of(reader: object) -> dict[str, Any]:
    """Hashes of the keys of a reader's rows (drivetrain/data/key_sample.py); empty where its data says none."""
    prepared = getattr(reader, "data", None)
    return prepared.keys if isinstance(prepared, PreparedData) else {}
