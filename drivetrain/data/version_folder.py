"""A folder with the versions of one data set, and the pointer that says which of them readers find.

The pointer is manifest.json of the folder. One move replaces it, and with it the date: the current version is as old as
the pointer's file, so that a kill leaves no version that readers find and that has no date. Earlier versions have the
dates of their own manifests, which are set before another one becomes current.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from drivetrain.base.errors import InputError, warn
from drivetrain.base.file_locks import hold, make_durable
from drivetrain.data.accepted import accepted_version
from drivetrain.data.manifest import MANIFEST_FILE, Manifest
from drivetrain.data.versions import NEVER, NOTED_TIME, VERSION_FOLDER, earlier_times, holds_other_manifest

# The new data set is written here, in the folder itself: a folder beside it may be on another file system.
STAGING = ".drivetrain-new"
# A version on its way out; what is left of it when a run is killed goes with the next run.
_LEAVING = ".drivetrain-old-"
_POINTER = f".{MANIFEST_FILE}.partial"
# What a full disk, an exceeded quota and a file-size limit say.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# What versions before format 2 left in the folder itself.
_FORMAT_1_FILE = re.compile(r"part-\d{5,}\.parquet|\.part-\d{5,}\.parquet\.partial")


class VersionFolder:
    """The writer of a version. The files are staged, then placed beside the earlier versions, then pointed to.

    From `start` to `discard` the folder is locked against other writers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.staging = folder / STAGING
        self.keep_days: float | None = None
        """Earlier versions stay for so many days, however many they are."""
        self._lock: int | None = None
        self._manifest: Manifest

    def start(self) -> None:
        """Make the folder and an empty staging folder; what the folder holds stays.

        Raises:
            InputError: another run writes into the folder, or Drivetrain did not write its manifest.json.
        """
        if holds_other_manifest(self.folder):
            raise InputError(
                f"{self.folder / MANIFEST_FILE} was not written by drivetrain, and a data set would replace it. Give "
                "another folder, or move the file away."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = locked(self.folder)
        shutil.rmtree(self.staging, ignore_errors=True)
        self.staging.mkdir()

    def staged(self, manifest: Manifest) -> None:
        """Say what the staged files are."""
        self._manifest = manifest

    def discard(self) -> None:
        """Remove what was staged, by this run or one that was killed, and let other writers in. What cannot be removed
        is left to the next run; the failure that led here is the one to tell."""
        if self._lock is not None:
            shutil.rmtree(self.staging, ignore_errors=True)
            os.close(self._lock)
            self._lock = None

    def place_version(self) -> None:
        """Give the staged files the folder of their version, and write what will point there."""
        version, current = self._manifest.version, self.current()
        if current:
            self._date(current)  # a kill may have come before the run that pointed to it did
        target = self.folder / version
        manifest = target / MANIFEST_FILE
        before = manifest.stat().st_mtime_ns if manifest.is_file() else NEVER
        # One that is current is as old as it was; another one has no date before it is.
        since = before if current == version else NEVER
        staged = self.staging / MANIFEST_FILE
        os.utime(staged, ns=(since, since))
        if target.is_dir():
            if since != before:
                self._note_time(version, before)
            # The same content, by its name; a file of it that was damaged is whole again.
            for path in sorted(self.staging.iterdir(), key=lambda path: path == staged):
                path.replace(target / path.name)
        else:
            self.staging.rename(target)
        self._manifest.in_version().write(self.folder / _POINTER)
        if since != NEVER:
            os.utime(self.folder / _POINTER, ns=(since, since))
        make_durable(target)

    def point(self) -> None:
        """From here on readers find the new version."""
        (self.folder / _POINTER).replace(self.folder / MANIFEST_FILE)
        make_durable(self.folder)
        self._date(self._manifest.version)

    def remove_versions(self, replaced: str | None, keep: int) -> None:
        """Remove earlier versions but the `keep` that were last: first the `replaced` one, then by the time at which
        they were written. The accepted one stays, too. Files of others are left alone."""
        current = self._manifest.version
        try:
            accepted = accepted_version(self.folder)
        except InputError as error:  # nobody knows which version must stay
            warn(f"no earlier version is removed: {error}")
            return
        others = [
            path
            for path in self.folder.iterdir()
            if VERSION_FOLDER.fullmatch(path.name)
            and path.name not in (current, accepted)
            and (path / MANIFEST_FILE).is_file()
        ]
        others.sort(key=lambda path: (path.name == replaced, (path / MANIFEST_FILE).stat().st_mtime_ns), reverse=True)
        if self.keep_days is not None:
            oldest = time.time_ns() - round(self.keep_days * 86_400e9)
            keep = sum((path / MANIFEST_FILE).stat().st_mtime_ns > oldest for path in others)
        for path in others[keep:]:
            path.rename(self.folder / f"{_LEAVING}{path.name}")
        for path in self.folder.glob(f"{_LEAVING}*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.folder.iterdir():
            if (noted := NOTED_TIME.fullmatch(path.name)) and not (self.folder / noted[1]).is_dir():
                path.unlink()
        if replaced != "" or not keep:
            for path in self.folder.iterdir():
                if _FORMAT_1_FILE.fullmatch(path.name):
                    path.unlink()

    def _date(self, current: str) -> None:
        """Give the manifest of the current version its date, which is the pointer's, where it has none."""
        manifest = self.folder / current / MANIFEST_FILE
        if manifest.is_file() and manifest.stat().st_mtime_ns == NEVER:
            since = (self.folder / MANIFEST_FILE).stat().st_mtime_ns
            os.utime(manifest, ns=(since, since))

    def _note_time(self, version: str, since: int) -> None:
        """Keep when a version became current that comes back now: its manifest gets another time."""
        times = earlier_times(self.folder, version)
        if since in times:  # noted by a run that was killed
            return
        noted = self.staging / f".{version}.{len(times)}"
        noted.touch()
        os.utime(noted, ns=(since, since))
        noted.replace(self.folder / noted.name)
        make_durable(self.folder)

    def current(self) -> str | None:
        """The version that readers find: "" for one of format 1, None for no set, or an unreadable one."""
        manifest = _manifest_in(self.folder)
        if manifest is None:
            return None
        return manifest.shards[0].file.rpartition("/")[0] if manifest.shards else manifest.version


def publish(folders: Iterable[VersionFolder], keep: int) -> None:
    """Make the staged data sets those that readers find.

    All sets are complete in their places before the first pointer is replaced; each pointer is replaced in one move. So
    each folder always holds the complete earlier set or the complete new one, also after a kill. Replaced sets stay for
    their readers; `keep` of them outlive this run.
    """
    folders = tuple(folders)
    for each in folders:
        each.place_version()
    replaced = [each.current() for each in folders]
    for each in folders:
        each.point()
    for each, version in zip(folders, replaced, strict=True):
        each.remove_versions(version, keep)


def check_folders(inputs: Mapping[str, Path], outputs: Mapping[str, Path]) -> None:
    """No folder may be inside another: what is written to one would be read, or removed, as a part of the other.

    Raises:
        InputError: two folders are one, or one inside the other; or an output is a file.
    """
    known = [(name, folder.resolve()) for name, folder in inputs.items()]
    for name, folder in outputs.items():
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{name}: {folder} is a file; it must be a folder, which is made if it is missing.")
        path = folder.resolve()
        for other, taken in known:
            if path.is_relative_to(taken) or taken.is_relative_to(path):
                raise InputError(f"{name}: {folder} and the folder of {other} are one, or one inside the other.")
        known.append((name, path))


def no_space(folder: Path, error: OSError) -> InputError:
    """The error for a disk that has no room for what a step writes into `folder`."""
    free = shutil.disk_usage(folder).free
    return InputError(
        f"the disk is full: {error.strerror} while writing to {folder.parent}. What was written is removed; now "
        f"{free >> 20:,} MiB are free. Make room, or give the step a larger volume."
    )


def copy_version(source: Path, target: Path, keep: int) -> None:
    """Make the current version of a set that of another folder, as if it had been written there. `keep` of the
    versions that are there stay; shards that the one before has, too, take no more room.

    Raises:
        InputError: `source` holds no set with versions, or another run writes into `target`.
        OSError: `target` cannot be written.
    """
    manifest = Manifest.read(source, checksums=False)
    copy = VersionFolder(target)
    try:
        copy.start()
        known = _other_shards(target, manifest.version)
        named = {shard.name: shard.sha256 for shard in manifest.shards}
        for path in (source / manifest.version).iterdir():
            staged = copy.staging / path.name
            if earlier := known.get(named.get(path.name, "")):
                os.link(earlier, staged)
            else:
                shutil.copyfile(path, staged)
                make_durable(staged)
        copy.staged(manifest)
        publish([copy], keep)
    finally:
        copy.discard()


def _other_shards(folder: Path, version: str) -> dict[str, Path]:
    """SHA-256 -> file of the shards that readers of a folder find, where they find another version."""
    current = _manifest_in(folder)
    shards = () if current is None or current.version == version else current.shards
    return {shard.sha256: folder / shard.file for shard in shards}


def holds_versions(folder: Path) -> bool:
    """Return True if one of our steps wrote a set with versions into a folder."""
    manifest = _manifest_in(folder) if folder.is_dir() else None
    return manifest is not None and (folder / manifest.version / MANIFEST_FILE).is_file()


def _manifest_in(folder: Path) -> Manifest | None:
    """The manifest of a folder; None if it is missing or cannot be read."""
    try:
        return Manifest.read(folder, checksums=False)
    except InputError:
        return None


def locked(folder: Path) -> int:
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
