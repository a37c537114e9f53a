"""The beginning of a table in a file, CSV or Parquet, as a page shows it: bounded, whatever the file says."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from importlib import import_module
from itertools import islice, zip_longest
from typing import Any, BinaryIO

from drivetrain.base.formatting import count
from drivetrain.base.markup import Content, el
from drivetrain.run_store.run_values import number_in
from drivetrain.telling import Cell, scrolled, table
from drivetrain.telling.page.sections import short_value

MAX_ROWS, MAX_COLUMNS = 100, 30
SHORT = 30
"""Characters that stand in one line: a date is not broken."""
# Of Parquet: what its first rows may take in memory, and its description of itself.
MAX_BATCH_BYTES, MAX_FOOTER_BYTES = 16 * 1024 * 1024, 16 * 1024 * 1024


def csv_table(text: str, delimiter: str, *, is_whole: bool) -> Content:
    """The first rows; None of what is no CSV."""
    lines = text if is_whole else text.rpartition("\n")[0]
    try:
        rows = list(islice(csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter), MAX_ROWS + 2))
    except csv.Error:
        return None
    if not rows:
        return None
    head, *body = rows
    width = max(map(len, rows))
    return _table(head, body[:MAX_ROWS], width, is_whole=is_whole and len(body) <= MAX_ROWS)


def parquet_table(file: BinaryIO) -> Content:
    """The first rows, or why they cannot be shown."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        return el("p", "To see its rows here, install pyarrow: python -m pip install 'drivetrain[data]'.")
    end = file.seek(0, io.SEEK_END)
    file.seek(max(end - 8, 0))
    footer = file.read(8)
    if footer[4:] == b"PAR1" and int.from_bytes(footer[:4], "little") > MAX_FOOTER_BYTES:
        return el("p", "It has too many columns to be shown. Download it.")
    try:
        table: Any = parquet.ParquetFile(file, buffer_size=1024 * 1024, pre_buffer=False)
        names: list[str] = table.schema_arrow.names
        batches = table.iter_batches(batch_size=MAX_ROWS, columns=names[:MAX_COLUMNS], use_threads=False)
        first: Any = next(batches, None)
        if first is None:
            return _table(names, [], len(names), is_whole=True)
        if first.nbytes > MAX_BATCH_BYTES:
            return el("p", "Its rows are too large to be shown. Download it.")
        body = [list(row.values()) for row in first.to_pylist()]
    except (arrow.ArrowException, OSError, ValueError) as error:
        return el("p", f"It cannot be read as Parquet: {str(error).partition(chr(10))[0]:.200}")
    return _table(names, body, len(names), is_whole=len(body) == table.metadata.num_rows)


def _table(head: Sequence[str], body: Sequence[Sequence[Any]], width: int, *, is_whole: bool) -> Content:
    """Rows below the names of their columns; numbers end below each other."""
    cells = [["–" if cell is None else str(cell) for cell in row[:MAX_COLUMNS]] for row in body]
    texts = {
        place for row in cells for place, cell in enumerate(row) if number_in(cell) is None and cell not in ("", "–")
    }
    places = range(min(width, MAX_COLUMNS))
    right = [place for place in places if body and place not in texts]
    names = [short_value(name) for name, _ in zip_longest(head[: len(places)], places, fillvalue="")]
    rows = [
        [Cell(short_value(cell), None if place in right else _kind(cell)) for place, cell in enumerate(row)]
        for row in cells
    ]
    table_of_rows = table(names, rows, right=right, lead=None)
    cut = [] if is_whole else [f"the first {count(len(body), 'row')}"]
    if width > MAX_COLUMNS:
        cut.append(f"the first {MAX_COLUMNS} of {width:,} columns")
    note = el("p", f"Shown: {', '.join(cut)}.") if cut else None
    return [note, scrolled(table_of_rows, kind="preview")]


def _kind(cell: str) -> str | None:
    return "short" if len(cell) <= SHORT else None
