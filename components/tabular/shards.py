"""Parquet shards of one data set, written as rows come."""

from __future__ import annotations

import hashlib
import io
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from drivetrain.components.manifest import MANIFEST_FILE, Column, Manifest, Shard
from drivetrain.components.tabular.arrow import Batch, Schema, arrow
from drivetrain.components.tabular.statistics import TableStatistics

# Rows of a row group, the unit in which rows are buffered, written and read; fewer where they are wide.
ROW_GROUP_ROWS = 1 << 16
ROW_GROUP_BYTES = 64 << 20
_OWN_FILE = re.compile(r"part-\d{5,}\.parquet|\.part-\d{5,}\.parquet\.partial|\.?manifest\.json(\.partial)?")


class ShardWriter:
    """Writes `part-00000.parquet`, ... and `manifest.json`.

    A shard has its name only when all of it is on the disk, and the manifest comes last. The same rows in the same
    order give the same bytes, however they are cut into batches (with one version of pyarrow, which writes its version
    into each file).
    """

    def __init__(self, folder: Path, schema: Schema, *, key: str, label: str | None, rows_per_shard: int) -> None:
        self.folder = folder
        self.rows = 0
        self.statistics = TableStatistics(schema, label, key=key)
        self._schema = schema
        self._key = key
        self._label = label
        self._rows_per_shard = rows_per_shard
        self._shards: list[Shard] = []
        self._pending: list[Batch] = []
        self._pending_rows = 0
        self._file: _ShardFile | None = None
        self._file_rows = 0

    def clear(self) -> None:
        """Make the folder, and remove what an earlier run left in it; other files are left alone.

        The manifest goes first: killed here, it must not outlive a shard that it vouches for.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        own = [path for path in self.folder.iterdir() if _OWN_FILE.fullmatch(path.name)]
        for path in sorted(own, key=lambda path: path.suffix == ".parquet"):
            path.unlink()

    def append(self, batch: Batch) -> None:
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        while self._pending_rows >= self._room():
            self._write_row_group(self._room())
        if sum(pending.nbytes for pending in self._pending) >= ROW_GROUP_BYTES:
            self._write_row_group(self._pending_rows)

    def finish(self) -> None:
        """Write what is pending, and finish the last shard."""
        if self._pending_rows:
            self._write_row_group(self._pending_rows)
        self._finish_shard()

    def manifest(self) -> Manifest:
        return Manifest(
            key=self._key,
            label=self._label,
            schema=tuple(Column(field.name, str(field.type)) for field in self._schema),
            shards=tuple(self._shards),
            statistics=self.statistics.entries(),
        )

    def discard(self) -> None:
        """Remove all that was written, after a failure."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
        # What cannot be removed is left to the next run; the failure that led here is the one to tell.
        for name in (MANIFEST_FILE, f".{MANIFEST_FILE}.partial", *(shard.file for shard in self._shards)):
            with suppress(OSError):
                (self.folder / name).unlink()

    def _room(self) -> int:
        return min(ROW_GROUP_ROWS, self._rows_per_shard - self._file_rows)

    def _write_row_group(self, rows: int) -> None:
        pa = arrow()
        table = pa.Table.from_batches(self._pending, schema=self._schema)
        group = table.slice(0, rows).combine_chunks()
        self._pending = table.slice(rows).to_batches()
        self._pending_rows -= rows
        self.statistics.add(group)
        if self._file is None:
            self._file = _ShardFile(self.folder / f"part-{len(self._shards):05d}.parquet", self._schema)
        self._file.write(group)
        self._file_rows += rows
        if self._file_rows == self._rows_per_shard:
            self._finish_shard()

    def _finish_shard(self) -> None:
        if self._file is not None:
            size, sha256 = self._file.finish()
            self._shards.append(Shard(self._file.path.name, self._file_rows, size, sha256))
            self._file = None
            self._file_rows = 0


class _ShardFile:
    """One Parquet file on its way to its name."""

    def __init__(self, path: Path, schema: Schema) -> None:
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
                use_dictionary=True,
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
        # pyarrow's writer closes its sink; the file is closed by whoever knows how the writing ended.
        if self.abandoned:
            with suppress(OSError):
                self._file.close()
        super().close()
