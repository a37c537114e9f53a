"""CSV files: RFC 4180, UTF-8, the first row names the columns.

Arrow parses numbers as it reads. Where one does not parse (a marker of a missing value, a blank, a fault), the column
is read again as text and converted here, so that a bad cell can be named. Rows are numbered as an editor or a
spreadsheet shows them: the header is row 1.
"""

from __future__ import annotations

import csv
import functools
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from drivetrain.base.errors import InputError, first_line
from drivetrain.data.arrow import Batch, DataType, Schema, arrow, numpy
from drivetrain.data.convert import BadValueError, converted, exceeds_int64, inferred_type, wider_text_type
from drivetrain.data.source import CellError, Source

# Arrow's unit of work: a row must fit in it, and a few of them are in memory at a time.
BLOCK_BYTES = 4 << 20
_CONVERSION = re.compile(r"In CSV column #(\d+): ")


def infer_csv(source: Source, *, whole: bool, delimiter: str) -> Schema:
    """Column names with the narrowest types that hold the cells of the first block, or of the whole file."""
    pa = arrow()
    names = header(source, delimiter)
    types = [pa.null() for _ in names]
    # Without threads nothing is read ahead of the first block.
    for batch in _batches(source, dict.fromkeys(names, pa.string()), delimiter, threads=whole):
        types = [
            wider_text_type(known, inferred_type(column)) for known, column in zip(types, batch.columns, strict=True)
        ]
        if not whole:
            break
    return pa.schema(list(zip(names, types, strict=True)))


def csv_batches(source: Source, schema: Schema, *, inferred: frozenset[str], delimiter: str) -> Iterator[Batch]:
    """The file's rows in the schema's columns and types.

    Raises:
        CellError: a value that is not of its column's type.
        InputError: the file is not UTF-8, not CSV, or damaged.
    """
    first = 0
    types = {field.name: _reading_type(field, inferred) for field in schema}
    while True:
        try:
            for batch in _after(first, _batches(source, types, delimiter)):
                _check_width(batch, inferred)
                try:
                    yield converted(batch, schema, text=True, strict=inferred)
                except BadValueError as error:
                    raise CellError(f"{locate_csv(source, first + error.row, delimiter)}, {error}.") from None
                first += batch.num_rows
            return
        except _UnparsedError as error:
            # From here on as text, from the first row that was not yet given.
            types[error.column] = arrow().string()


def header(source: Source, delimiter: str) -> list[str]:
    """The column names.

    Raises:
        InputError: no header, a name that is empty or occurs twice.
    """
    number, cells = next(_records(source, delimiter), (0, list[str]()))
    if not cells:
        raise InputError(f"{source.name} is empty: it has no header and no rows.")
    names = [_utf8(source, number, str(index + 1), cell) for index, cell in enumerate(cells)]
    for index, name in enumerate(names):
        if not name.strip():
            raise InputError(
                f"{source.name}, row {number}: column {index + 1} has no name. The first row must name every column "
                "(pandas writes such a column unless index=False)."
            )
        if name in names[:index]:
            raise InputError(f"{source.name}, row {number}: two columns are called {name!r}. Rename one.")
    return names


def locate_csv(source: Source, index: int, delimiter: str) -> str:
    """Where the file shows its data row of this index (from 0)."""
    for position, (number, _) in enumerate(_records(source, delimiter)):
        if position == index + 1:
            return f"{source.name}, row {number}"
    raise AssertionError(f"{source.name} has no data row {index}")


class _UnparsedError(Exception):
    """A cell that Arrow does not parse as it reads."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


def _reading_type(field: Schema, inferred: frozenset[str]) -> DataType:
    """The type in which Arrow may read a column: its own, or text where the cells must be looked at.

    An integer whose type was inferred is one only without leading zeros. Text that is no UTF-8 is found in text alone.
    """
    pa = arrow()
    kinds = pa.types
    parsed = (kinds.is_floating, kinds.is_integer, kinds.is_date32, kinds.is_timestamp, kinds.is_decimal)
    if not any(is_kind(field.type) for is_kind in parsed) or kinds.is_float16(field.type):
        return pa.string()
    return pa.string() if kinds.is_integer(field.type) and field.name in inferred else field.type


def _check_width(batch: Batch, inferred: frozenset[str]) -> None:
    """
    Raises:
        _UnparsedError: a column of floats, whose type was inferred, may have whole numbers that floats do not hold.
    """
    pa = arrow()
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_floating(field.type) and field.name in inferred and exceeds_int64(column):
            raise _UnparsedError(field.name)


def _after(rows: int, batches: Iterator[Batch]) -> Iterator[Batch]:
    """Batches without the first so many rows."""
    for batch in batches:
        if rows < batch.num_rows:
            yield batch.slice(rows)
        rows = max(0, rows - batch.num_rows)


def _batches(source: Source, types: Mapping[str, DataType], delimiter: str, *, threads: bool = True) -> Iterator[Batch]:
    """The named columns in these types; an empty cell is null.

    Raises:
        _UnparsedError: a cell that is not of its column's type.
        InputError: the file is not UTF-8, not CSV, or damaged.
    """
    pa = arrow()
    checked = False
    try:
        # Decompressed here rather than by name, so that `.CSV.GZ` is too.
        with (
            pa.input_stream(str(source.path), compression="gzip" if source.gzipped else None) as stream,
            pa.csv.open_csv(
                stream,
                read_options=pa.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=threads),
                parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict(types),
                    include_columns=list(types),
                    strings_can_be_null=True,
                    null_values=[""],
                ),
            ) as reader,
        ):
            for batch in reader:
                # Arrow takes what follows a closing quote for more of the cell. So a quote that was not closed swallows
                # the rows up to the next one, or to the end of the file. Such a cell has several lines.
                if not checked and _has_line_ends(batch):
                    stat = source.path.stat()
                    _check_quotes(source, delimiter, stat.st_size, stat.st_mtime_ns)
                    checked = True
                if batch.num_rows:
                    yield batch
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):  # a header that no line end follows
            return
        if unparsed := _CONVERSION.match(str(error)):
            name = header(source, delimiter)[int(unparsed[1])]
            if types[name] != pa.string():
                raise _UnparsedError(name) from None
        _explain(source, delimiter, error)
    except OSError as error:
        raise _damaged(source, error) from error


def _has_line_ends(batch: Batch) -> bool:
    """Whether a cell of text may have several lines."""
    pa, np = arrow(), numpy()
    for column in batch.columns:
        if pa.types.is_string(column.type) and len(column) and (content := column.buffers()[2]) is not None:
            start, end = np.frombuffer(column.buffers()[1], "<i4")[[column.offset, column.offset + len(column)]]
            if (np.frombuffer(content, "u1")[start:end] == ord("\n")).any():
                return True
    return False


@functools.lru_cache(maxsize=4096)
def _check_quotes(source: Source, delimiter: str, size: int, changed: int) -> None:
    """Read the file strictly; once, as long as it does not change.

    Raises:
        InputError: a quote does not close, or something follows a closing one.
    """
    for _ in _records(source, delimiter, strict=True):
        pass


def _explain(source: Source, delimiter: str, error: Exception) -> NoReturn:
    """Find what Arrow stumbled over, with the place in the file."""
    _check(source, delimiter)
    if "straddling" in str(error):
        raise InputError(
            f"{source.name} has a row of more than {BLOCK_BYTES >> 20} MiB, which is not read. Use Parquet."
        ) from error
    raise InputError(f"{source.name} cannot be read as CSV: {error}.") from error


def _check(source: Source, delimiter: str) -> None:
    """Read the file slowly and raise what is wrong with it: quotes, the length of rows, the encoding."""
    names = header(source, delimiter)
    for number, cells in _records(source, delimiter, strict=True):
        if len(cells) != len(names):
            raise InputError(
                f"{source.name}, row {number} has {len(cells)} cells; the header names {len(names)} columns. Put "
                "quotes around cells that contain the delimiter."
            )
        for name, cell in zip(names, cells, strict=True):
            _utf8(source, number, name, cell)


def _utf8(source: Source, number: int, column: str, cell: str) -> str:
    data = cell.encode("latin-1")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source.name}, row {number}, column {column!r}: {data[:40]!r} is not UTF-8 (byte 0x"
            f"{data[error.start]:02x}). Save the file as UTF-8, for example: iconv -f latin1 -t utf-8."
        ) from None


def _records(source: Source, delimiter: str, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Row numbers and cells, the header first, blank lines left out.

    Every byte is one character (latin-1), so that bytes which are not UTF-8 get this far and can be named.
    """
    limit = csv.field_size_limit(1 << 31)
    number = 0
    try:
        with _opened(source) as file:
            start = file.read(3)
            if start[:2] in ("\xff\xfe", "\xfe\xff"):
                raise InputError(f"{source.name} is UTF-16. Save it as UTF-8, for example: iconv -f utf-16 -t utf-8.")
            if start != "\xef\xbb\xbf":  # the byte order mark that spreadsheets write
                file.seek(0)
            for cells in csv.reader(file, delimiter=delimiter, strict=strict):
                number += 1
                if cells:
                    yield number, cells
    except csv.Error as error:
        raise InputError(f"{source.name}, row {number + 1} is not CSV: {error} (is a quote not closed?).") from None
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(source, error) from error
    finally:
        csv.field_size_limit(limit)


def _opened(source: Source) -> IO[str]:
    opener = cast("Any", gzip.open if source.gzipped else Path.open)
    return opener(source.path, "rt", encoding="latin-1", newline="")


def _damaged(source: Source, error: Exception) -> InputError:
    return InputError(f"{source.name} cannot be read: {first_line(error)}. Is it damaged, or cut short?")
