"""Arrow's own files: of the file format (Feather 2) and of the stream format. Rows are numbered from 1."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from drivetrain.data.arrow import Batch, Schema, arrow
from drivetrain.data.convert import BadValueError, check_text, converted
from drivetrain.data.source import CellError, Source, damaged, locate_row, named_once

# Rows given at a time, fewer where they are wide.
BATCH_ROWS = 1 << 16
BATCH_BYTES = 32 << 20
_FILE_FORMAT = b"ARROW1"


def infer_ipc(source: Source) -> Schema:
    """The columns and their types, from the file's schema."""
    with _opened(source) as (schema, _):
        return named_once(source, schema)


def ipc_batches(source: Source, schema: Schema) -> Iterator[Batch]:
    """The file's rows in the schema's columns and types.

    Raises:
        CellError: a value that is not of its column's type.
        InputError: the file is damaged.
    """
    first = 0
    with _opened(source) as (_, batches):
        for batch in batches:
            try:
                # Arrow believes what a file says of its own lengths and places, too.
                check_text(batch)
            except BadValueError as error:
                raise CellError(f"{locate_row(source, first + error.row)}, {error}.") from None
            step = max(1, min(BATCH_ROWS, BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1)))
            for start in range(0, batch.num_rows, step):
                try:
                    yield converted(batch.slice(start, step), schema, text=False)
                except BadValueError as error:
                    raise CellError(f"{locate_row(source, first + start + error.row)}, {error}.") from None
            first += batch.num_rows


@contextmanager
def _opened(source: Source) -> Generator[tuple[Schema, Iterator[Batch]]]:
    """The schema and the checked batches of a file."""
    pa = arrow()

    def checked(reader: Any) -> Iterator[Batch]:
        stream = hasattr(reader, "read_next_batch")
        for batch in reader if stream else map(reader.get_batch, range(reader.num_record_batches)):
            batch.validate()
            yield batch

    try:
        with source.path.open("rb") as file:
            is_file = file.read(len(_FILE_FORMAT)) == _FILE_FORMAT
        # Mapped: a file may hold all rows in one batch.
        opens = pa.ipc.open_file if is_file else pa.ipc.open_stream
        with pa.memory_map(str(source.path)) as mapped, opens(mapped) as reader:
            yield reader.schema, checked(reader)
    except (pa.ArrowException, OSError) as error:
        raise damaged(source, error, "Arrow") from error
