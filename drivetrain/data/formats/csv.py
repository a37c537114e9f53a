"""CSV files: RFC 4180, UTF-8, the first row names the columns.

Arrow parses numbers as it reads. Where one does not parse (a marker of a missing value, a blank, a fault), the column
is read again as text and converted here, so that a bad cell can be named. Rows are numbered as an editor or a
spreadsheet shows them: the header is row 1.
"""

from __future__ import annotations

import csv
import functools
import gzip
import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Batch, DataType, Schema, arrow
from drivetrain.data.convert import (
    BadValueError,
    Unreadable,
    converted,
    decimal_point,
    has_infinities,
    inferred_type,
    may_lose_digits,
    wider_text_type,
)
from drivetrain.data.encodings import advice
from drivetrain.data.formats.csv_quotes import MANY_LINES, QuoteCheck
from drivetrain.data.lanes import Lane
from drivetrain.data.schema import delimiter_hint
from drivetrain.data.source import CellError, Source, damaged

# Arrow's unit of work: a row must fit in it, and a few of them are in memory at a time.
BLOCK_BYTES = 4 << 20
_MALFORMED = "a quote at the beginning of a cell has none at its end, or text follows that one"
_ADVICE = 'Close the quote, take it out, or write a quote within a cell twice: "5"" pipe".'
# With a decimal comma, or whole.
_NUMBER = r"^\s*[-+]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?\s*$"
_CONVERSION = re.compile(r"In CSV column #(\d+): ")


def infer_csv(source: Source, *, whole: bool) -> Schema:
    """Column names with the narrowest types that hold the cells of the first block, or of the whole file."""
    pa = arrow()
    names = header(source)
    types = [pa.null() for _ in names]
    # Without threads nothing is read ahead of the first block.
    for batch in _batches(source, dict.fromkeys(names, pa.string()), threads=whole):
        types = [
            wider_text_type(known, inferred_type(column)) for known, column in zip(types, batch.columns, strict=True)
        ]
        if not whole:
            break
    return pa.schema(list(zip(names, types, strict=True)))


def csv_batches(
    source: Source, schema: Schema, *, inferred: frozenset[str], unreadable: Unreadable | None = None
) -> Iterator[Batch]:
    """The file's rows in the schema's columns and types.

    Args:
        source: the file.
        schema: the wanted columns.
        inferred: columns whose type was inferred.
        unreadable: takes in the cells of its columns that are not of their type, and they become null.

    Raises:
        CellError: a value that is not of its column's type.
        InputError: the file is not UTF-8, not CSV, or damaged.
    """
    first = 0
    types = {field.name: _reading_type(field, inferred) for field in schema}
    while True:
        try:
            for batch in _after(first, _batches(source, types)):
                _check_range(batch, inferred)
                try:
                    yield converted(batch, schema, text=True, strict=inferred, unreadable=unreadable)
                except BadValueError as error:
                    raise CellError(f"{locate_csv(source, first + error.row)}, {error}.") from None
                first += batch.num_rows
            return
        except _UnparsedError as error:
            # From here on as text, from the first row that was not yet given.
            types[error.column] = arrow().string()


def header(source: Source) -> list[str]:
    """The column names.

    Raises:
        InputError: no header, a name that is empty or occurs twice.
    """
    number, cells = next(_records(source), (0, list[str]()))
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


def csv_row_numbers(source: Source) -> Iterator[int]:
    """The numbers of the data rows in the file, as an editor shows them: blank lines count."""
    records = _records(source)
    next(records, None)  # the header
    return (number for number, _ in records)


def locate_csv(source: Source, index: int) -> str:
    """The place of the data row of this index (from 0) in the file, for messages."""
    return f"{source.name}, row {next(islice(csv_row_numbers(source), index, None))}"


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


def _check_range(batch: Batch, inferred: frozenset[str]) -> None:
    """
    Raises:
        _UnparsedError: a column of floats may have numbers that overflow, or whole numbers, where the type was
            inferred, that floats do not hold.
    """
    pa = arrow()
    for field, column in zip(batch.schema, batch.columns, strict=True):
        exceeds = may_lose_digits if field.name in inferred else has_infinities
        if pa.types.is_floating(field.type) and exceeds(column):
            raise _UnparsedError(field.name)


def _after(rows: int, batches: Iterator[Batch]) -> Iterator[Batch]:
    """Batches without the first so many rows."""
    for batch in batches:
        if rows < batch.num_rows:
            yield batch.slice(rows)
        rows = max(0, rows - batch.num_rows)


def _batches(source: Source, types: Mapping[str, DataType], *, threads: bool = True) -> Iterator[Batch]:
    """The named columns in these types; an empty cell is null.

    Raises:
        _UnparsedError: a cell that is not of its column's type.
        InputError: the file is not UTF-8, not CSV, or damaged.
    """
    pa = arrow()
    quotes = QuoteCheck(source.delimiter, len(header(source)))
    block_bytes = BLOCK_BYTES if source.gzipped else _block_bytes(source)
    try:
        # Decompressed here rather than by name, so that `.CSV.GZ` is too.
        with (
            _bytes_of(source) as stream,
            # Read once more, right behind Arrow, from memory of the system. Arrow is given no stream of Python's: its
            # threads would call into the interpreter, also while that ends, and hang.
            _bytes_of(source) as again,
            pa.csv.open_csv(
                stream,
                read_options=pa.csv.ReadOptions(block_size=block_bytes, use_threads=threads),
                parse_options=pa.csv.ParseOptions(delimiter=source.delimiter, newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict(types),
                    include_columns=list(types),
                    strings_can_be_null=True,
                    null_values=[""],
                ),
            ) as reader,
            closing(Lane()) as checking,
        ):
            block = bytearray(block_bytes)
            for batch in reader:
                checking.do(quotes.read, again, block)
                if quotes.malformed:
                    _refuse_bad_quotes(source, quotes)
                if batch.num_rows:
                    yield batch
            checking.do(quotes.finish, again, block)
            checking.wait()
            _refuse_bad_quotes(source, quotes)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):  # a header that no line end follows
            return
        if unparsed := _CONVERSION.match(str(error)):
            name = header(source)[int(unparsed[1])]
            if types[name] != pa.string():
                raise _UnparsedError(name) from None
        _explain(source, error, quotes)
    except OSError as error:
        raise damaged(source, error) from error


def _block_bytes(source: Source) -> int:
    """A block size with which no block ends within a line end of two bytes: Arrow leaves out the "\\n" at the beginning
    of a block after a block that ended with "\\r", also within quotes, where a value loses it. In a compressed file
    this is only seen while it is read: QuoteCheck reports it."""
    with source.path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for block_bytes in range(BLOCK_BYTES, BLOCK_BYTES // 2, -1):
            borders = range(block_bytes, size, block_bytes)
            if not any(os.pread(file.fileno(), 2, border - 1) == b"\r\n" for border in borders):
                return block_bytes
    raise InputError(f"{source.name} cannot be read as CSV: nearly all of it is line ends.")


def _bytes_of(source: Source) -> Any:
    return arrow().input_stream(str(source.path), compression="gzip" if source.gzipped else None)


def _refuse_bad_quotes(source: Source, quotes: QuoteCheck) -> None:
    """
    Raises:
        InputError: a quote does not close, something follows a closing one, or a cell has swallowed rows.
    """
    if quotes.splits_line_end:
        raise InputError(
            f"{source.name}: a line end of two bytes within quotes lies on a border of the blocks that are read, where "
            "it would lose one. Unpack the file: then other blocks are read."
        )
    refuses = not source.keeps_cells_like_rows
    if quotes.malformed or (quotes.swallows and refuses):
        for number, cells in _records(source, strict=quotes.malformed):
            for cell in (cell.encode("latin-1") for cell in cells):
                if refuses and quotes.holds_rows(cell):
                    lines = cell.count(b"\n") + 1
                    raise InputError(
                        f"{source.name}, row {number}: a cell that begins with a quote holds {lines:,} lines, which "
                        "look like rows of the table. Close the quote, or take it out. If it really is one cell, give "
                        "cells_like_rows=keep."
                    )
        if quotes.malformed:
            raise InputError(f"{source.name} is not CSV: {quotes.malformed}. {_ADVICE}")
    if quotes.has_many_lines:
        stat = source.path.stat()
        _warn_of_lines(source, stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=4096)
def _warn_of_lines(source: Source, size: int, changed: int) -> None:
    """Name the first cell of very many lines; once, as long as the file does not change."""
    for number, cells in _records(source):
        if lines := next((cell.count("\n") for cell in cells if cell.count("\n") > MANY_LINES), 0):
            print(
                f"warning: {source.name}, row {number}: a cell in quotes has {lines + 1:,} lines.",
                "Is a quote not closed?",
                file=sys.stderr,
            )
            return


def _explain(source: Source, error: Exception, quotes: QuoteCheck) -> NoReturn:
    """Find what Arrow stumbled over, with the place in the file."""
    _check(source, quotes)
    if "straddling" in str(error):
        _, number = max((sum(map(len, cells)), number) for number, cells in _records(source))
        raise InputError(
            f"{source.name} has a row of more than {BLOCK_BYTES >> 20} MiB, which is not read: row {number}. Is a "
            "quote not closed there? If all of it is one row, use Parquet."
        ) from error
    raise InputError(f"{source.name} cannot be read as CSV: {error}.") from error


def _check(source: Source, quotes: QuoteCheck) -> None:
    """Read the file slowly and raise what is wrong with it: quotes, the length of rows, the encoding."""
    names = header(source)
    for number, cells in _records(source, strict=quotes.malformed or _MALFORMED):
        if len(cells) != len(names):
            raise InputError(_uneven(source, number, cells, names))
        for name, cell in zip(names, cells, strict=True):
            _utf8(source, number, name, cell)


def _uneven(source: Source, number: int, cells: list[str], names: list[str]) -> str:
    """The message for a row that has not as many cells as the header."""
    found = f"{source.name}, row {number} has {len(cells)} cells; the header names {len(names)} columns."
    hint = delimiter_hint(names)
    if not hint:
        return f"{found} Put quotes around cells that contain the delimiter."
    comma = re.search(r"\d+,\d+", source.delimiter.join(cells)) if source.delimiter == "," else None
    return f"{found}{hint}" + (f" {decimal_point(comma[0])}." if comma else "")


def decimal_commas(source: Source, names: Sequence[str]) -> dict[str, tuple[int, str]]:
    """The columns of text whose cells, as far as the first block shows, are numbers with decimal commas: by name, the
    index of the first such row and its cell."""
    pa = arrow()
    found: dict[str, tuple[int, str]] = {}
    for batch in _batches(source, dict.fromkeys(names, pa.string()), threads=False):
        for name, column in zip(names, batch.columns, strict=True):
            plain = pa.compute.match_substring_regex(column, _NUMBER)
            if pa.compute.all(plain).as_py():
                index = pa.compute.index(pa.compute.match_substring(column, ","), True).as_py()
                if index >= 0:
                    found[name] = index, column[index].as_py().strip()
        break
    return found


def _utf8(source: Source, number: int, column: str, cell: str) -> str:
    data = cell.encode("latin-1")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source.name}, row {number}, column {column!r}: {data[:40]!r} is not UTF-8 (byte 0x"
            f"{data[error.start]:02x}). {advice(data, source.name)}"
        ) from None


def _records(source: Source, *, strict: str = "") -> Iterator[tuple[int, list[str]]]:
    """Row numbers and cells, the header first, blank lines left out.

    Every byte is one character (latin-1), so that bytes which are not UTF-8 get this far and can be named. With
    `strict`, a quote that does not close, or that something follows, is an error, and this says what is wrong.
    """
    limit = csv.field_size_limit(1 << 31)
    number, line = 0, 1
    try:
        with _opened(source) as file:
            start = file.read(3)
            if start[:2] in ("\xff\xfe", "\xfe\xff") or start == "\0\0\xfe":
                wide = "32" if "\0\0" in start + file.read(1) else "16"
                raise InputError(
                    f"{source.name} is UTF-{wide}. Save it as UTF-8, for example: iconv -f utf-{wide} -t utf-8."
                )
            if start != "\xef\xbb\xbf":  # the byte order mark that spreadsheets write
                file.seek(0)
            reader = csv.reader(file, delimiter=source.delimiter, strict=bool(strict))
            for cells in reader:
                number, line = number + 1, reader.line_num + 1
                if cells:
                    yield number, cells
    except csv.Error as error:
        # A row of several lines makes the numbers of rows and lines differ.
        at = "" if line == number + 1 else f" (line {line})"
        found = strict or str(error)
        raise InputError(
            f"{source.name}, row {number + 1}{at} is not CSV: {found} (is a quote not closed?). {_ADVICE}"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(source, error) from error
    finally:
        csv.field_size_limit(limit)


def _opened(source: Source) -> IO[str]:
    opener = cast("Any", gzip.open if source.gzipped else Path.open)
    return opener(source.path, "rt", encoding="latin-1", newline="")
