"""One data set: its versions in a folder, and which of them readers find."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.base.file_locks import hold
from drivetrain.data.arrow import Array, Batch, Schema, arrow
from drivetrain.data.fitting import Fitting
from drivetrain.data.increments import EarlierSet, Keeper, take_over
from drivetrain.data.manifest import MANIFEST_FILE, Column, Manifest
from drivetrain.data.shard_files import ShardFiles
from drivetrain.data.statistics import TableStatistics
from drivetrain.data.versions import VERSION_FOLDER

# The new data set is written here, in the folder itself: a folder beside it may be on another file system.
STAGING = ".drivetrain-new"
# A version on its way out; what is left of it when a run is killed goes with the next run.
_LEAVING = ".drivetrain-old-"
_POINTER = f".{MANIFEST_FILE}.partial"
# What versions before format 2 left in the folder itself.
_FORMAT_1_FILE = re.compile(r"part-\d{5,}\.parquet|\.part-\d{5,}\.parquet\.partial")


class ShardWriter:
    """Writes `part-00000.parquet`, ... and `manifest.json` into a staging folder; `publish` makes a version of them.

    The manifest comes last. From `start` to `discard` the folder is locked against other writers.
    """

    def __init__(
        self, folder: Path, schema: Schema, *, key: str | None, label: str | None, rows_per_shard: int
    ) -> None:
        self.folder = folder
        self.rows = 0
        self._lock: int | None = None
        self._staging = folder / STAGING
        self.statistics = TableStatistics(schema, label, key=key)
        self._schema = schema
        self._key = key
        self._label = label
        self._files = ShardFiles(self._staging, schema, rows_per_shard, counted=self._count)
        self._fitting: Fitting | None = None
        self._keeper: Keeper | None = None
        self._manifest: Manifest

    def start(self) -> None:
        """Make the folder and an empty staging folder; what the folder holds stays.

        Raises:
            InputError: another run writes into the folder.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.folder)
        shutil.rmtree(self._staging, ignore_errors=True)
        self._staging.mkdir()

    def fit(self, fitting: Fitting) -> None:
        """Fit transforms on the rows of this set."""
        self._fitting = fitting

    def keep_state(self) -> None:
        """Keep what the next run goes on from, beside the shards."""
        self._keeper = Keeper(self._staging)

    def continue_from(self, earlier: EarlierSet) -> None:
        """Begin with the shards and the statistics of an earlier set. New rows get shards of their own."""
        assert self._keeper
        for shard in earlier.manifest.shards:
            name = shard.file.rpartition("/")[2]
            take_over(earlier.folder / name, self._staging / name)
            self._files.shards.append(replace(shard, file=name))
        self._keeper.continue_from(earlier)
        self.statistics.restore(earlier.statistics)
        if self._fitting:
            self._fitting.restore(earlier.statistics["fitting"])
        self.rows = earlier.manifest.rows

    def append(self, batch: Batch, hashes: Array = None) -> None:
        """Take in the next rows, with the hashes of their keys where they have keys."""
        if not batch.num_rows:
            return
        if self._keeper and hashes is not None:
            self._keeper.add(hashes)
        self.rows += batch.num_rows
        self._files.append(batch)

    def finish(self) -> None:
        """Write what is pending."""
        self._files.finish()

    def keep_rows(self, hashes: Any) -> None:
        """Keep what leakage is looked for by in the next rows, where state is kept."""
        if self._keeper:
            self._keeper.add_rows(hashes)

    def keep_compared(self, groups: Mapping[str, Iterable[Any]]) -> None:
        """Say that leakage was looked for, and keep the hashes of groups, where state is kept."""
        if self._keeper:
            self._keeper.compared(groups)

    def stage(
        self,
        lineage: Mapping[str, Any],
        *,
        engine: str = "",
        fitted: Mapping[str, Any] | None = None,
        leakage: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Write the manifest beside the shards: the new version is whole, and nobody reads it yet."""
        state = {**self.statistics.state(), "fitting": self._fitting.state() if self._fitting else []}
        kept = self._keeper.finish(state) if self._keeper else {}
        self._manifest = Manifest(
            key=self._key,
            label=self._label,
            schema=tuple(Column(field.name, str(field.type)) for field in self._schema),
            shards=tuple(self._files.shards),
            statistics=self.statistics.entries(),
            engine=engine or f"pyarrow {arrow().__version__}",
            lineage={**lineage, **kept},
            fitted=fitted or {},
            leakage=leakage or {},
        )
        self._manifest.write(self._staging / MANIFEST_FILE)
        return self._manifest

    def _count(self, group: Any) -> None:
        self.statistics.add(group)
        if self._fitting:
            self._fitting.add(group)

    def discard(self) -> None:
        """Remove what was staged, by this run or one that was killed, and let other writers in. What cannot be removed
        is left to the next run; the failure that led here is the one to tell."""
        self._files.close()
        if self._lock is not None:
            shutil.rmtree(self._staging, ignore_errors=True)
            os.close(self._lock)
            self._lock = None

    def place_version(self) -> None:
        """Give the staged files the folder of their version, and write what will point there."""
        target = self.folder / self._manifest.version
        if target.is_dir():
            manifest = target / MANIFEST_FILE
            is_current = _pointed_at(self.folder) == self._manifest.version and manifest.is_file()
            since = manifest.stat().st_mtime_ns if is_current else None
            # The same content, by its name; a file of it that was damaged is whole again.
            for path in sorted(self._staging.iterdir(), key=lambda path: path.name == MANIFEST_FILE):
                path.replace(target / path.name)
            if since is not None:  # versions are found by date: this one is as old as it was
                os.utime(manifest, ns=(since, since))
        else:
            self._staging.rename(target)
        self._manifest.in_version().write(self.folder / _POINTER)
        _make_durable(target)

    def point(self) -> None:
        """From here on readers find the new version."""
        (self.folder / _POINTER).replace(self.folder / MANIFEST_FILE)
        _make_durable(self.folder)

    def remove_versions(self, replaced: str | None, keep: int) -> None:
        """Remove earlier versions but the `keep` that were last: first the `replaced` one, then by the time at which
        they were written. Files of others are left alone."""
        current = self._manifest.version
        others = [
            path
            for path in self.folder.iterdir()
            if VERSION_FOLDER.fullmatch(path.name) and path.name != current and (path / MANIFEST_FILE).is_file()
        ]
        others.sort(key=lambda path: (path.name == replaced, (path / MANIFEST_FILE).stat().st_mtime_ns), reverse=True)
        for path in others[keep:]:
            path.rename(self.folder / f"{_LEAVING}{path.name}")
        for path in self.folder.glob(f"{_LEAVING}*"):
            shutil.rmtree(path, ignore_errors=True)
        if replaced != "" or not keep:
            for path in self.folder.iterdir():
                if _FORMAT_1_FILE.fullmatch(path.name):
                    path.unlink()


def publish(writers: Iterable[ShardWriter], keep: int) -> None:
    """Make the staged data sets those that readers find.

    All of them are whole in their places before the first pointer is replaced, each in one move. A reader, and whoever
    looks after a kill, finds in each folder the earlier set or the new one, whole. Sets that were replaced stay for
    those who read them; `keep` of them outlive this run.
    """
    writers = tuple(writers)
    for writer in writers:
        writer.place_version()
    replaced = [_pointed_at(writer.folder) for writer in writers]
    for writer in writers:
        writer.point()
    for writer, version in zip(writers, replaced, strict=True):
        writer.remove_versions(version, keep)


def _pointed_at(folder: Path) -> str | None:
    """The version that readers of a folder find: "" for one of format 1, None for no set, or an unreadable one."""
    try:
        shards = Manifest.read(folder, checksums=False).shards
    except InputError:
        return None
    return shards[0].file.rpartition("/")[0] if shards else None


def _locked(folder: Path) -> int:
    """A descriptor that keeps other writers out of a folder until it is closed, or its process ends.

    Raises:
        InputError: another run has it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        hold(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise InputError(
                f"another run is writing into {folder} now. Wait until it has ended, or give another folder."
            ) from None
        raise
    return descriptor


def _make_durable(folder: Path) -> None:
    """What was renamed in a folder stays so when the power fails."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
