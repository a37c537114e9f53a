"""Parquet shards of one data set, written as rows come."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from drivetrain.data.arrow import Batch, Schema, arrow
from drivetrain.data.lanes import Lane
from drivetrain.data.manifest import MANIFEST_FILE, Column, Manifest, Shard
from drivetrain.data.statistics import TableStatistics

# Rows of a row group, the unit in which rows are buffered, written and read; fewer where they are wide.
ROW_GROUP_ROWS = 1 << 16
ROW_GROUP_BYTES = 64 << 20
_OWN_FILE = re.compile(r"part-\d{5,}\.parquet|\.part-\d{5,}\.parquet\.partial|\.?manifest\.json(\.partial)?")


# The new data set is written here, in the folder itself: a folder beside it may be on another file system.
STAGING = ".drivetrain-new"


class ShardWriter:
    """Writes `part-00000.parquet`, ... and `manifest.json` into a staging folder; `publish` moves them to their place.

    A shard has its name only when all of it is on the disk, and the manifest comes last. The same rows in the same
    order give the same bytes, however they are cut into batches (with one version of pyarrow, which writes its version
    into each file).
    """

    def __init__(self, folder: Path, schema: Schema, *, key: str, label: str | None, rows_per_shard: int) -> None:
        self.folder = folder
        self.rows = 0
        self._staging = folder / STAGING
        self.statistics = TableStatistics(schema, label, key=key)
        self._schema = schema
        self._key = key
        self._label = label
        self._rows_per_shard = rows_per_shard
        self._shards: list[Shard] = []
        self._pending: list[Batch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._cut_rows = 0
        self._file: _ShardFile | None = None
        self._file_rows = 0
        self._counting = Lane()
        self._writing = Lane()

    def start(self) -> None:
        """Make the folder and an empty staging folder; what the folder holds stays."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._staging, ignore_errors=True)
        self._staging.mkdir()

    def append(self, batch: Batch) -> None:
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
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

    def manifest(self) -> Manifest:
        return Manifest(
            key=self._key,
            label=self._label,
            schema=tuple(Column(field.name, str(field.type)) for field in self._schema),
            shards=tuple(self._shards),
            statistics=self.statistics.entries(),
        )

    def stage(self) -> Manifest:
        """Write the manifest beside the shards: the new data set is whole, and nobody reads it yet."""
        manifest = self.manifest()
        manifest.write(self._staging)
        return manifest

    def discard(self) -> None:
        """Remove what was staged, by this run or one that was killed. What cannot be removed is left to the next run;
        the failure that led here is the one to tell."""
        self._counting.close()
        self._writing.close()
        if self._file is not None:
            self._file.abandon()
            self._file = None
        shutil.rmtree(self._staging, ignore_errors=True)

    def replace_shards(self) -> None:
        """Move the staged shards to their place, and remove those of an earlier run; other files are left alone."""
        staged = [shard.file for shard in self._shards]
        for path in self.folder.iterdir():
            if _OWN_FILE.fullmatch(path.name) and path.name not in staged:
                path.unlink()
        for name in staged:
            (self._staging / name).replace(self.folder / name)

    def replace_manifest(self) -> None:
        """Move the staged manifest to its place: from here on the folder is whole."""
        (self._staging / MANIFEST_FILE).replace(self.folder / MANIFEST_FILE)

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
        self._counting.do(self.statistics.add, group)
        self._writing.do(self._write_row_group, group)

    def _write_row_group(self, group: Any) -> None:
        if self._file is None:
            self._file = _ShardFile(self._staging / f"part-{len(self._shards):05d}.parquet", self._schema)
        self._file.write(group)
        self._file_rows += group.num_rows
        if self._file_rows == self._rows_per_shard:
            self._finish_shard()

    def _finish_shard(self) -> None:
        if self._file is not None:
            size, sha256 = self._file.finish()
            self._shards.append(Shard(self._file.path.name, self._file_rows, size, sha256))
            self._file = None
            self._file_rows = 0


def publish(writers: Iterable[ShardWriter]) -> None:
    """Replace the data sets of an earlier run by those that were staged, all of them together.

    All old manifests go first and all new ones come last. A process that is killed in between leaves folders without a
    manifest, which readers refuse, and never the sets of two runs side by side.
    """
    writers = tuple(writers)
    for writer in writers:
        (writer.folder / MANIFEST_FILE).unlink(missing_ok=True)
    for writer in writers:
        writer.replace_shards()
    for writer in writers:
        writer.replace_manifest()


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
