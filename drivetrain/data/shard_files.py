"""Parquet files of about the same number of rows, written as rows come: the one writer of all that prepares data."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from drivetrain.data.arrow import Batch, Schema, arrow
from drivetrain.data.lanes import Lane
from drivetrain.data.manifest import Shard

# Rows of a row group, the unit in which rows are buffered, written and read; fewer where they are wide.
ROW_GROUP_ROWS = 1 << 16
ROW_GROUP_BYTES = 64 << 20
# A column gets a dictionary where each value occurs so often among the first rows.
_REPEATS, _FIRST_ROWS = 8, 1 << 13


class ShardFiles:
    """Writes `part-00000.parquet`, ... into a folder. A file has its name only when all of it is on the disk.

    The same rows in the same order give the same bytes, however they are cut into batches (with one version of pyarrow,
    which writes its version into each file).

    Args:
        folder: where the files go.
        schema: the columns.
        rows_per_shard: rows of each file but the last.
        counted: is given each row group, in a thread of its own.
    """

    def __init__(
        self,
        folder: Path,
        schema: Schema,
        rows_per_shard: int,
        *,
        counted: Callable[[Any], None] = lambda group: None,
    ) -> None:
        self.shards: list[Shard] = []
        self._folder = folder
        self._schema = schema
        self._rows_per_shard = rows_per_shard
        self._counted = counted
        self._pending: list[Batch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._cut_rows = 0
        self._file: _ShardFile | None = None
        self._file_rows = 0
        self._counting = Lane()
        self._writing = Lane()

    def append(self, batch: Batch) -> None:
        if not batch.num_rows:
            return
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        while self._pending_rows >= self._room():
            self._cut_row_group(self._room())
        if self._pending_bytes >= ROW_GROUP_BYTES:
            self._cut_row_group(self._pending_rows)

    def finish(self) -> None:
        """Write what is pending, and finish the last shard."""
        if self._pending_rows:
            self._cut_row_group(self._pending_rows)
        self._writing.do(self._finish_shard)
        self._counting.wait()
        self._writing.wait()

    def close(self) -> None:
        """End the threads; what was begun and not finished is removed."""
        self._counting.close()
        self._writing.close()
        if self._file is not None:
            self._file.abandon()
            self._file = None

    def _room(self) -> int:
        return min(ROW_GROUP_ROWS, self._rows_per_shard - self._cut_rows)

    def _cut_row_group(self, rows: int) -> None:
        """Hand the next rows to the two threads that count and write them."""
        table = arrow().Table.from_batches(self._pending, schema=self._schema)
        group = table.slice(0, rows).combine_chunks()
        self._pending = table.slice(rows).to_batches()
        self._pending_rows -= rows
        self._pending_bytes = sum(pending.nbytes for pending in self._pending)
        self._cut_rows = (self._cut_rows + rows) % self._rows_per_shard
        self._counting.do(self._counted, group)
        self._writing.do(self._write_row_group, group)

    def _write_row_group(self, group: Any) -> None:
        if self._file is None:
            path = self._folder / f"part-{len(self.shards):05d}.parquet"
            self._file = _ShardFile(path, self._schema, dictionaries=_repeating(group))
        self._file.write(group)
        self._file_rows += group.num_rows
        if self._file_rows == self._rows_per_shard:
            self._finish_shard()

    def _finish_shard(self) -> None:
        if self._file is not None:
            size, sha256 = self._file.finish()
            self.shards.append(Shard(self._file.path.name, self._file_rows, size, sha256))
            self._file = None
            self._file_rows = 0


class _ShardFile:
    """One Parquet file on its way to its name."""

    def __init__(self, path: Path, schema: Schema, *, dictionaries: Sequence[str]) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.partial")
        self._sink = _HashingSink(self._temporary)
        try:
            # Everything that shapes the bytes is said here, so that a new default of pyarrow changes nothing.
            self._writer: Any = arrow().parquet.ParquetWriter(
                self._sink,
                schema,
                version="2.6",
                data_page_version="1.0",
                compression="zstd",
                compression_level=1,
                use_dictionary=list(dictionaries),
                write_statistics=True,
                data_page_size=1 << 20,
                store_schema=True,
            )
        except OSError:  # the first bytes are written here
            self._remove()
            raise

    def write(self, table: Any) -> None:
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def finish(self) -> tuple[int, str]:
        """Close the file and give it its name; its size and SHA-256."""
        self._writer.close()
        self._sink.close_durably()
        self._temporary.replace(self.path)
        return self._sink.size, self._sink.sha256.hexdigest()

    def abandon(self) -> None:
        self._sink.abandoned = True
        self._writer.close()
        self._remove()

    def _remove(self) -> None:
        self._sink.abandoned = True
        self._sink.close()
        with suppress(OSError):
            self._temporary.unlink()


def _repeating(group: Any) -> list[str]:
    """The columns whose values mostly repeat in a shard's first rows. For other columns a dictionary takes half of the
    time of writing and a third more space."""
    nested, first = arrow().types.is_nested, group.slice(0, _FIRST_ROWS)
    flat = [field.name for field in group.schema if not nested(field.type)]
    return [name for name in flat if len(first.column(name).unique()) * _REPEATS <= first.num_rows]


class _HashingSink(io.RawIOBase):
    """A file that knows the size and SHA-256 of what was written to it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self.sha256 = hashlib.sha256()
        self.size = 0
        self.abandoned = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        if not self.abandoned:
            self._file.write(view)
            self.sha256.update(view)
            self.size += len(view)
        return len(view)

    def close_durably(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        super().close()

    def close(self) -> None:
        # pyarrow's writer closes its sink; the caller, which knows how the writing ended, closes the file.
        if self.abandoned:
            with suppress(OSError):
                self._file.close()
        super().close()
