"""All files of a data set as one table, read batch by batch."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Array, Batch, DataType, Schema, arrow
from drivetrain.data.convert import BadValueError, Unreadable, converted, described, inferred_type, wider_text_type
from drivetrain.data.formats.csv import csv_batches, csv_row_numbers, infer_csv, locate_csv
from drivetrain.data.formats.ipc import infer_ipc, ipc_batches
from drivetrain.data.formats.jsonl import infer_jsonl, jsonl_batches, jsonl_row_numbers, locate_jsonl
from drivetrain.data.formats.parquet import infer_parquet, parquet_batches
from drivetrain.data.increments import NotUsableError
from drivetrain.data.manifest import check_shard
from drivetrain.data.schema import (
    DeclaredSchema,
    ExtraColumns,
    declared_schema,
    has_empty_objects,
    resolved_schema,
    type_of_both,
)
from drivetrain.data.source import CellError, Source, find_sources, locate_row

CellsLikeRows = Literal["refuse", "keep"]
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n|\r\r")


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The user's settings for reading the input."""

    key: str | None
    label: str | None
    schema: str | None = None
    extra_columns: ExtraColumns = "refuse"
    delimiter: str = ","
    cells_like_rows: CellsLikeRows = "refuse"
    types: Mapping[str, str] | None = None
    """Types of columns that row rules give; `schema` may give those of others."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """The rows of all files in order, with the columns and types of `schema`. Nothing is kept in memory."""

    schema: Schema
    sources: Sequence[Source]
    written: Sequence[Schema]
    """For each file, its own columns, without those in the names of its folders."""
    inferred: frozenset[str]
    drop: bool
    empty: frozenset[str] = frozenset()
    """Columns in which no value is expected: a value is an error. They become text."""
    unreadable: Unreadable | None = None
    """Takes in cells that are not of their column's type, of CSV files."""

    @property
    def is_typed_by_files(self) -> bool:
        """True if the files themselves hold all types, so that no type was inferred."""
        return all(source.format in ("parquet", "ipc") for source in self.sources)  # (folders' names are all known)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[tuple[Source, int, Batch]]:
        """The rows of all columns, or of some: a file, the index of the batch's first row in it, and the batch.

        Raises:
            CellError: a value that is not of its column's type.
            InputError: a file is not what its name says, or damaged.
        """
        schema = self.schema
        if columns is not None:
            for name in set(schema.names) - set(columns):
                schema = schema.remove(schema.get_field_index(name))
        for source, written in zip(self.sources, self.written, strict=True):
            first = 0
            values = _folder_values(source, schema, written, self.inferred)
            empty = () if source.format in ("parquet", "ipc") else self.empty
            stored = _typed([field for field in schema if field.name not in values], empty, arrow().null())
            for batch in self._file(source, stored, written, drop=self.drop or columns is not None):
                batch = _with_values(batch, values, schema) if values or self.empty else batch
                yield source, first, batch
                first += batch.num_rows

    def locate(self, source: Source, index: int) -> str:
        """The place of the row of this index in a file, for messages: "b.csv, row 12"."""
        return {"csv": locate_csv, "jsonl": locate_jsonl}.get(source.format, locate_row)(source, index)

    def _file(self, source: Source, schema: Schema, written: Schema, *, drop: bool) -> Iterator[Batch]:
        if source.format == "csv":
            return csv_batches(source, schema, inferred=self.inferred, unreadable=self.unreadable)
        if source.format == "jsonl":
            return jsonl_batches(source, schema, written=written, drop=drop, inferred=self.inferred)
        return ipc_batches(source, schema) if source.format == "ipc" else parquet_batches(source, schema)


def open_table(raw: Path, options: TableOptions, *, whole: bool) -> Table:
    """Find the files, infer the types that are not given, and settle the columns.

    Args:
        raw: a folder or a file.
        options: see `prepare_data`.
        whole: infer types from all rows; otherwise from the first few megabytes of each file, which is enough unless
            reading raises CellError.

    Raises:
        InputError: no data, or columns that do not go together.
    """
    declared, extra_columns = _declared(options, raw)
    sources = _as_given(find_sources(raw), options)
    written = [_inferred(source, whole) for source in sources]
    folders = _folder_schema(sources)
    if options.key in folders.names and options.key not in written[0].names:
        raise InputError(f"key: {options.key!r} stands in the names of folders, so that many rows have the same.")
    found = [(source, _joined(each, folders)) for source, each in zip(sources, written, strict=True)]
    schema = resolved_schema(found, declared, extra_columns, options.key, options.label)
    empty = frozenset(field.name for field in schema if arrow().types.is_null(field.type))
    return Table(
        schema=_typed(schema, empty, arrow().string()),
        sources=sources,
        written=written,
        inferred=frozenset(name for name in schema.names if _is_inferred(name, declared)),
        drop=declared is not None and extra_columns == "drop",
        empty=empty,
    )


def continued_table(
    raw: Path, options: TableOptions, sources: Sequence[Source], schema: Schema, empty: Collection[str] = ()
) -> Table:
    """The rows of some files with the columns and types that others had. `empty` are the columns in which those had no
    value.

    Raises:
        InputError: a file lacks a column, has another one, or says itself that a column has another type.
    """
    declared, extra_columns = _declared(options, raw)
    drop = declared is not None and extra_columns == "drop"
    sources = _as_given(sources, options)
    written = [_inferred(source, False) for source in sources]
    folders = _folder_schema(sources)
    for source, found in zip(sources, written, strict=True):
        names = _joined(found, folders).names
        missing = [name for name in schema.names if name not in names]
        if missing and source.format != "jsonl":
            raise InputError(f"{source.name} has no column {missing[0]!r}, which the files before it have.")
        extra = [name for name in names if name not in schema.names]
        if extra and not drop:
            raise InputError(
                f"{source.name}: column {extra[0]!r} is in no file before it. All must have the same columns."
            )
    inferred = frozenset(name for name in schema.names if _is_inferred(name, declared))
    table = Table(
        schema=schema,
        sources=sources,
        written=written,
        inferred=inferred,
        drop=drop,
        empty=frozenset(name for name in inferred & set(empty) if arrow().types.is_string(schema.field(name).type)),
    )
    for source, found in zip(sources, written, strict=True):
        if source.format in ("parquet", "ipc") and (change := _type_change(table, source, found)):
            raise InputError(change)
    return table


def row_numbers(source: Source, indices: Sequence[int]) -> list[int]:
    """The numbers by which messages name rows (`Table.locate`) of these indices, in ascending order."""
    if source.format not in ("csv", "jsonl"):
        return [index + 1 for index in indices]
    stat = source.path.stat()
    first = 2 if source.format == "csv" else 1
    breaks = _blank_lines(source, first, stat.st_size, stat.st_mtime_ns)
    return [index + first + bisect.bisect_right(breaks, index) for index in indices]


@functools.lru_cache(maxsize=64)
def _blank_lines(source: Source, first: int, size: int, changed: int) -> list[int]:
    """For each blank line, the index of the row after it; as long as the file does not change."""
    numbers = csv_row_numbers(source) if source.format == "csv" else jsonl_row_numbers(source)
    found: list[int] = []
    for index, number in enumerate(numbers if _may_have_blank_lines(source) else ()):
        found += [index] * (number - index - first - len(found))
    return found


def _may_have_blank_lines(source: Source) -> bool:
    """Most files have none, and then rows need not be counted one by one."""
    before = b"\n"
    with arrow().input_stream(str(source.path), compression="gzip" if source.gzipped else None) as stream:
        while block := stream.read(1 << 20):
            if _BLANK_LINE.search(before + block):
                return True
            before = block[-1024:]
    return False


def type_change(table: Table, error: CellError) -> InputError:
    """The error for a value that is not of the type that earlier files gave its column: which column has which type
    now, in which file. Of a type that the user gave, the error itself.

    Raises:
        NotUsableError: the column had no value before, so its type is open.
    """
    for source in table.sources:
        found = _joined(_inferred(source, True), _folder_schema(table.sources))
        for name in sorted(table.empty & set(found.names)):
            if not arrow().types.is_null(found.field(name).type):
                raise NotUsableError(f"column {name!r} had no value before, and has some in {source.name}")
        if change := _type_change(table, source, found):
            return InputError(f"{error} {change}")
    return error


def _type_change(table: Table, source: Source, found: Schema) -> str:
    """The first column of a file whose inferred type does not fit into the table's; empty for none."""
    for field in table.schema:
        if field.name not in table.inferred or field.name not in found.names:
            continue
        given = found.field(field.name).type
        if not _fits_into(given, field.type, text=source.format == "csv"):
            return (
                f"Column {field.name!r} is {described(field.type)} column in the earlier run (previous), and "
                f"{described(given)} column in {source.name}. Correct the file, or leave out previous: then all is "
                "prepared anew with the new type, or with one that schema gives."
            )
    return ""


def _fits_into(given: DataType, wanted: DataType, *, text: bool) -> bool:
    pa = arrow()
    if text:
        return pa.types.is_string(wanted) or wider_text_type(wanted, given) == wanted
    try:
        return type_of_both(wanted, given) == wanted
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False


def _inferred(source: Source, whole: bool) -> Schema:
    """
    Raises:
        InputError: the name of a column holds a NUL, which Parquet's readers and Polars do not take.
    """
    found = _inferred_types(source, whole)
    for number, name in enumerate(found.names, 1):
        if "\0" in name:
            raise InputError(f"{source.name}: the name of column {number} holds a NUL: {name!r:.60}. Rename it.")
    if not whole and source.format == "jsonl" and any(map(has_empty_objects, found.types)):
        return _inferred_types(source, True)  # later objects may have members
    return found


def _inferred_types(source: Source, whole: bool) -> Schema:
    if source.format == "csv":
        return infer_csv(source, whole=whole)
    if source.format == "jsonl":
        return infer_jsonl(source, whole=whole)
    return infer_ipc(source) if source.format == "ipc" else infer_parquet(source)


def _folder_schema(sources: Sequence[Source]) -> Schema:
    """The columns in the names of folders, with the narrowest types that hold all of their values."""
    pa = arrow()
    values: dict[str, list[str | None]] = {}
    for source in sources:
        for name, value in source.partition:
            values.setdefault(name, []).append(value)
    return pa.schema([(name, inferred_type(pa.array(found, pa.string()))) for name, found in values.items()])


def _joined(written: Schema, folders: Schema) -> Schema:
    """The columns of a file, and those in the names of its folders that it does not have by itself."""
    return arrow().schema([*written, *(field for field in folders if field.name not in written.names)])


def _folder_values(source: Source, schema: Schema, written: Schema, inferred: frozenset[str]) -> dict[str, Array]:
    """By column, the value in the names of a file's folders, as an array of length 1.

    Raises:
        CellError: one is not of its column's type.
    """
    pa = arrow()
    found: dict[str, Array] = {}
    for name, text in source.partition:
        if name in written.names or name not in schema.names:
            continue
        cell = pa.RecordBatch.from_arrays([pa.array([text], pa.string())], [name])
        try:
            found[name] = converted(cell, pa.schema([schema.field(name)]), text=True, strict=inferred).column(0)
        except BadValueError as error:
            raise CellError(f"{source.name}, in the name of its folder, {error}.") from None
    return found


def _with_values(batch: Batch, values: Mapping[str, Array], schema: Schema) -> Batch:
    """A batch with the columns that stand in the names of folders; those without a value get their types."""
    pa = arrow()
    first = pa.nulls(batch.num_rows, pa.int64()).fill_null(0)
    columns = [
        values[field.name].take(first) if field.name in values else batch.column(field.name).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _declared(options: TableOptions, raw: Path) -> tuple[DeclaredSchema | None, ExtraColumns]:
    """The types that the user gives, by `schema` or by row rules, and what is done with the columns of no type.

    Raises:
        InputError: both give one column a type.
    """
    declared = declared_schema(options.schema, raw)
    if not options.types:
        return declared, options.extra_columns
    if declared is None:
        return DeclaredSchema(options.types, "rules"), "keep"
    both = next((name for name, kind in options.types.items() if declared.differs(name, kind)), None)
    if both:
        raise InputError(f"column {both!r} has a type in {declared.origin}, and another one in rules. Keep one.")
    return DeclaredSchema({**declared.types, **options.types}, declared.origin), options.extra_columns


def _is_inferred(name: str, declared: DeclaredSchema | None) -> bool:
    return declared is None or declared.type_of(name) is None


def _typed(fields: Iterable[Any], names: Collection[str], data_type: DataType) -> Schema:
    """A schema in which columns of these names are of another type."""
    return arrow().schema([field.with_type(data_type) if field.name in names else field for field in fields])


def _as_given(sources: Sequence[Source], options: TableOptions) -> list[Source]:
    """The files to read, with what the user says about CSV. A .tsv has tabs unless another delimiter than the comma is
    given.

    Raises:
        InputError: a shard does not match its manifest.
    """
    for each in sources:
        if each.shard:
            check_shard(each.path, each.shard)
    delimiter, keeps = _delimiter(options.delimiter), options.cells_like_rows == "keep"
    return [
        replace(each, delimiter=each.delimiter if delimiter == "," else delimiter, keeps_cells_like_rows=keeps)
        for each in sources
    ]


def _delimiter(given: str) -> str:
    delimiter = "\t" if given in ("tab", "\\t") else given
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter.isalnum() or delimiter in '"\r\n':
        raise InputError(f'delimiter is {given!r}. Allowed: one character such as "," or ";", or tab.')
    return delimiter
