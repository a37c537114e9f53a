"""Read a table of answers, of any program, and bring it into the order of the data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute as _compute
from pyarrow import csv, parquet

from drivetrain.base.errors import InputError, and_more
from drivetrain.base.json_text import object_in, parsed_object
from drivetrain.data.manifest import MANIFEST_FILE
from drivetrain.registry.content_hash import hash_of_files
from drivetrain.registry.registration import EVALUATION_FILE
from drivetrain.registry.report_hash import hash_of
from drivetrain.training.answers import KEY, ROW, TEXT
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.prepared import PreparedData
from drivetrain.training.metric import Ints

compute: Any = _compute  # (whose functions are made when it is loaded)
FORMATS = ("parquet", "csv")
_LARGEST_BLOCK = 1 << 30
ADVICE = "A table has a row for each row of the data, named by its key: docs/evaluation.md."


@dataclass(frozen=True)
class Table:
    """Answers in the order of the data.

    Attributes:
        source: the file or folder that they were read from.
        content_hash: SHA-256 over its files' names and contents.
        columns: a chunked array of each column, a value for each row of the data.
    """

    source: Path
    content_hash: str
    columns: dict[str, pa.ChunkedArray]

    def is_text(self, name: str) -> bool:
        return is_text(self.columns[name])

    def numbers(self, name: str) -> NDArray[Any]:
        """A column of numbers or bools, shape [rows], or [rows, length] where it holds lists.

        Raises:
            InputError: it holds something else, an empty value, or lists of different lengths.
        """
        column = self.columns[name].combine_chunks()
        shape: tuple[int, ...] = (len(column),)
        nulls = column.null_count
        if pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
            lengths = compute.unique(compute.list_value_length(column)).drop_null().to_pylist()
            if len(lengths) > 1:
                raise InputError(
                    f"column {name!r} of {self.source} holds lists of {lengths[0]} and of {lengths[1]} values."
                )
            shape, column = (len(column), *lengths), column.flatten()
            nulls += column.null_count
        if nulls:
            raise InputError(
                f"column {name!r} of {self.source} is empty or NaN in {nulls:,} place{'s' * (nulls > 1)}. "
                "Answer each row."
            )
        if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            return column.to_numpy(zero_copy_only=False).reshape(shape)
        if pa.types.is_decimal(column.type):
            return column.cast("float64").to_numpy().reshape(shape)
        first = column[0].as_py() if len(column) else ""
        raise InputError(
            f"column {name!r} of {self.source} is {column.type}, such as {first!r:.60}, where numbers are expected."
        )

    def texts(self, name: str) -> NDArray[np.object_]:
        """A column of text, shape [rows].

        Raises:
            InputError: it holds something else or an empty value.
        """
        column = self.columns[name]
        if column.null_count:
            raise InputError(
                f"column {name!r} of {self.source} is empty in {column.null_count:,} rows. Answer each row."
            )
        if not is_text(column):
            raise InputError(f"column {name!r} of {self.source} is {column.type}, where text is expected.")
        return np.array(column.to_pylist(), dtype=object)


def is_text(column: pa.ChunkedArray) -> bool:
    """Return True for a column of text, in any of Arrow's forms of it."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def read_table(source: Path, dataset: Dataset) -> Table:
    """The table in a file or a folder, joined to the data by key, or by row where the data has no key of its own.

    Args:
        source: a .parquet or .csv file, or a folder of either; the shards of a folder with a manifest are checked.
        dataset: the data, with its key opened.

    Raises:
        InputError: no table there; no column to join by; a key that is doubled, empty or of another type; rows that
            one of the two lacks.
    """
    hashes = _files(source)
    keys = _keys(dataset)
    text_keys = (dataset.key or KEY, KEY) if keys is not None and is_text(keys) else ()
    try:
        found = _opened(list(hashes), text_keys)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError) as error:
        raise InputError(
            f"{source} cannot be read as a table: {' '.join(str(error).split()).rstrip('.'):.200}."
        ) from None
    if found.num_rows != len(dataset) and not found.num_rows:
        raise InputError(f"{source} has no rows, and the data has {len(dataset):,}. {ADVICE}")
    places = _places(found, source, keys, dataset)
    ordered = found if np.array_equal(places, np.arange(found.num_rows)) else found.take(pa.array(places))
    return Table(
        source,
        hash_of_files(
            {path.name if path == source else path.relative_to(source).as_posix(): hashes[path] for path in hashes}
        ),
        {name: ordered.column(name) for name in ordered.column_names},
    )


def described_task(source: Path) -> dict[str, Any]:
    """The task of a table that batch_predict wrote, as its manifest says it (`written.described_task`); empty for a
    table of another program.

    Raises:
        InputError: a manifest that cannot be read.
    """
    path = source / MANIFEST_FILE
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")).get("task", {}))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is not the manifest of a table ({error!r:.100}).") from None


def task_of_report(source: Path) -> dict[str, Any]:
    """The task of the predictions in a report of evaluate, as its evaluation.json says it; empty for other tables."""
    path = source.parent / EVALUATION_FILE
    if source.name != "predictions" or not path.is_file():
        return {}
    return object_in(parsed_object(path.read_text(encoding="utf-8")) or {}, "task")


def _files(source: Path) -> dict[Path, str]:
    """The files of a table with the SHA-256 of each.

    Raises:
        InputError: neither a table nor a folder with the files of one.
    """
    if source.is_file():
        found = [source]
    elif (source / MANIFEST_FILE).is_file():
        prepared = PreparedData(source)
        prepared.verify()
        return {source / shard.file: shard.sha256 for shard in prepared.shards}
    elif source.is_dir():
        found = sorted(path for path in source.rglob("*") if path.suffix[1:] in FORMATS and not _hidden(path, source))
    else:
        raise InputError(f"{source} is not there. Give the folder or the file of a table of answers.")
    kinds = sorted({path.suffix for path in found})
    if len(kinds) != 1 or kinds[0][1:] not in FORMATS:
        has = " and ".join(kinds) + " files" if kinds else "no .parquet or .csv file"
        raise InputError(f"{source} holds {has}; allowed is a table of .parquet files, or of .csv files.")
    return {path: hash_of(path) for path in found}


def _hidden(path: Path, source: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(source).parts) or not path.is_file()


def _opened(files: Sequence[Path], text_columns: Sequence[str]) -> pa.Table:
    if files[0].suffix == ".parquet":
        return _together(parquet.ParquetFile(path).read(use_threads=False) for path in files)
    types = csv.ConvertOptions(column_types=dict.fromkeys((*text_columns, TEXT), pa.string()))

    def read(path: Path) -> pa.Table:
        # In one block, as far as there can be: the types are those of its values.
        reading = csv.ReadOptions(use_threads=False, block_size=min(path.stat().st_size + 1, _LARGEST_BLOCK))
        return csv.open_csv(path, reading, convert_options=types).read_all()

    return _together(read(path) for path in files)


def _together(tables: Iterable[pa.Table]) -> pa.Table:
    """The files of a table: a column of whole numbers in one may be of fractions in another."""
    found = list(tables)
    for table in found:
        twice = next((name for name in table.column_names if table.column_names.count(name) > 1), None)
        if twice is not None:
            raise pa.ArrowInvalid(f"it has two columns {twice!r}")
    return pa.concat_tables(found, promote_options="permissive")


def _keys(dataset: Dataset) -> pa.ChunkedArray | None:
    """The data's keys, if it has some."""
    if dataset.key is None:
        return None
    values = dataset.reader.read(slice(0, len(dataset)), [dataset.key])[dataset.key]
    return pa.chunked_array([pa.array(values.tolist() if values.dtype == object else values)])


def _places(table: pa.Table, source: Path, keys: pa.ChunkedArray | None, dataset: Dataset) -> Ints:
    """The row of the table that answers each row of the data, int64 [rows].

    Raises:
        InputError: as `read_table`.
    """

    names = table.column_names
    name = next((each for each in (KEY, dataset.key or KEY) if each in names), "")
    if keys is not None:
        if not name:
            raise InputError(
                f"{source} has no column {KEY!r} or {dataset.key!r}, the key of the data; it has "
                f"{and_more(names, 12)}. {ADVICE}"
            )
        theirs = _same_type(table.column(name), keys, name, source, dataset)
        if len(compute.unique(keys)) == len(keys):
            return _joined(theirs, keys, (name, dataset.key or ""), source)
    if ROW not in names:
        why = "has no key" if keys is None else f"has keys ({dataset.key}) that name several rows"
        raise InputError(
            f"{source} has no column {ROW!r}, and the data {why}: number the rows that are answered, from 0."
        )
    rows = table.column(ROW)
    if not pa.types.is_integer(rows.type):
        raise InputError(f"column {ROW!r} of {source} is {rows.type}; allowed are row numbers, from 0.")
    numbers = pa.chunked_array([pa.array(np.arange(len(dataset), dtype=np.int64))])
    places = _joined(rows.cast("int64"), numbers, (ROW, ROW), source)
    if keys is not None:
        theirs = _same_type(table.column(name), keys, name, source, dataset)
        _agree(theirs.take(pa.array(places)), keys, name, source, dataset)
    return places


def _same_type(
    theirs: pa.ChunkedArray, ours: pa.ChunkedArray, name: str, source: Path, dataset: Dataset
) -> pa.ChunkedArray:

    if is_text(theirs) == is_text(ours):
        try:
            return theirs.cast(ours.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
    raise InputError(
        f"column {name!r} of {source} is {theirs.type}, such as {_first(theirs)!r:.60}, and the data's key "
        f"{dataset.key!r} is {ours.type}, such as {_first(ours)!r:.60}. Write the keys as the data has them."
    )


def _first(values: pa.ChunkedArray) -> Any:
    return values[0].as_py() if len(values) else None


def _joined(theirs: pa.ChunkedArray, ours: pa.ChunkedArray, names: tuple[str, str], source: Path) -> Ints:
    """The place in `theirs` of each of `ours`, which are all different; `names` are those of both columns."""

    if theirs.null_count:
        raise InputError(f"column {names[0]!r} of {source} is empty in {theirs.null_count:,} of {len(theirs):,} rows.")
    alien = compute.invert(compute.is_in(theirs, value_set=ours.combine_chunks()))
    lacking = compute.invert(compute.is_in(ours, value_set=theirs.combine_chunks()))
    sizes = f"it has {len(theirs):,} rows, and the data {len(ours):,}"
    for which, wrong, keys, name in (
        ("has answers to", alien, theirs, names[0]),
        ("has no answers to", lacking, ours, names[1]),
    ):
        number = compute.sum(wrong).as_py() or 0
        if number:
            example = keys.filter(wrong)[0].as_py()
            more = " that the data does not have" if wrong is alien else " of the data"
            raise InputError(
                f"{source} {which} {number:,} row{'s' * (number > 1)}{more}, such as {name}={example!r:.60}; {sizes}. "
                f"Give the table of the same data."
            )
    if len(theirs) != len(ours):
        counted = compute.value_counts(theirs)
        twice = counted.filter(compute.greater(counted.field("counts"), 1))
        raise InputError(
            f"{source} answers {len(twice):,} row{'s' * (len(twice) > 1)} more than once, such as "
            f"{names[0]}={twice[0]['values'].as_py()!r:.60}; {sizes}. Leave one answer to each row."
        )
    return compute.index_in(ours, value_set=theirs.combine_chunks()).to_numpy().astype(np.int64)


def _agree(theirs: pa.ChunkedArray, ours: pa.ChunkedArray, name: str, source: Path, dataset: Dataset) -> None:
    """Rows that are joined by their number have the same keys, too."""

    same = compute.fill_null(compute.equal(theirs, ours), False)
    wrong = len(same) - (compute.sum(same).as_py() or 0)
    if wrong:
        row = compute.index(same, False).as_py()
        raise InputError(
            f"column {name!r} of {source} has {theirs[row].as_py()!r:.60} at row {row}, and the data has "
            f"{dataset.key}={ours[row].as_py()!r:.60} there; {wrong:,} rows differ. Give the table of the same data."
        )
