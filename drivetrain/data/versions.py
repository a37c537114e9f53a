"""The versions of a prepared data set or a transformed table: found below a folder, and named by hash or by date.

A version's own folder (`train/3f6c0a41b2d7`) can be given wherever a folder of data is read. Its time is when it last
became the current one: that of its manifest's file or, for the current one, of the file that points to it. A copy that
does not keep times is as old as the copy. Empty files beside it (`train/.3f6c0a41b2d7.0`, `.1`, ...) have the earlier
times of one that came back. One that was never current, since the run that wrote it was killed, is no version yet.
"""

from __future__ import annotations

import datetime
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from drivetrain.base.errors import InputError
from drivetrain.data.manifest import MANIFEST_FILE, Manifest

VERSION_FOLDER = re.compile(r"[0-9a-f]{12}")
NOTED_TIME = re.compile(r"\.([0-9a-f]{12})\.[0-9]+")
# The time of a version's manifest before readers find it, in nanoseconds since 1970.
NEVER = 0
# The fewest digits of a hash that name a version.
_LEAST_DIGITS = 4
_HASH = re.compile(rf"[0-9a-f]{{{_LEAST_DIGITS},64}}")
# A data set lies at most so many folders below one that is searched.
_DEPTH = 3


@dataclass(frozen=True)
class Version:
    """One version of the set in `folder`; `path` is what is read of it."""

    folder: Path
    path: Path
    manifest: Manifest
    written: float
    """Seconds since 1970."""
    is_current: bool
    earlier: tuple[float, ...] = ()
    """When it had become current before `written`, the first time first."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.manifest.version if self.path == self.folder else self.path.name

    def last_written(self, until: float) -> float:
        """When it became current for the last time before a time; minus infinity for not."""
        return max((time for time in (*self.earlier, self.written) if time < until), default=-math.inf)


def sets_below(folder: Path) -> list[Path]:
    """The folders of data sets: the folder itself, or those below it.

    Raises:
        InputError: there is no such folder, or no set in it.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: {'it is a file' if folder.exists() else 'there is no such folder'}.")
    found = list(_sets(folder, _DEPTH))
    if not found:
        raise InputError(
            f"{folder} holds no data set. Give a folder that prepare_data, transform_data or read_source wrote, or one "
            f"above such folders (up to {_DEPTH})."
        )
    return found


def versions(folder: Path) -> list[Version]:
    """The versions of the set in a folder, the newest first. One of format 1 has no others."""
    current = Manifest.read(folder, checksums=False)
    pointed = _written(folder)
    found: list[Version] = []
    for path in folder.iterdir():
        if not VERSION_FOLDER.fullmatch(path.name) or not (path / MANIFEST_FILE).is_file():
            continue
        is_current = path.name == current.version
        times = earlier_times(folder, path.name)
        # (where the pointer has no date either, a copy has lost them all)
        if is_current:
            times.append(current_since(folder, path.name))
        elif (written := _written(path)) != NEVER or pointed == NEVER:
            times.append(written)
        if times:
            *earlier, last = (time / 1e9 for time in times)
            manifest = Manifest.read(path, checksums=False)
            found.append(Version(folder, path, manifest, last, is_current, earlier=tuple(earlier)))
    if not any(version.is_current for version in found):
        found.append(Version(folder, folder, current, pointed / 1e9, True))
    return sorted(found, key=lambda version: (version.written, version.is_current), reverse=True)


def version_at(found: Sequence[Version], wanted: str) -> Version:
    """A version of a set: by the beginning of its name or its hash, or the version that was current at the end of a
    date or at a time (in this machine's zone unless the time has one).

    Raises: InputError: there is no such version.
    """
    named = [version for version in found if version.name.startswith(wanted)] or [
        version for version in found if version.manifest.content_hash.startswith(wanted)
    ]
    if _HASH.fullmatch(wanted) and len(named) == 1:
        return named[0]
    listed = ", ".join(f"{each.name} of {_shown(each.written)}" for each in found)
    try:
        until = datetime.datetime.fromisoformat(wanted)
    except ValueError:
        raise InputError(
            f"{found[0].folder} has {'several versions' if len(named) > 1 else 'no version'} {wanted!r}. Allowed: the "
            f"beginning of a hash, {_LEAST_DIGITS} digits or more, or a time such as 2026-11-25 or 2026-11-25T08:00. "
            f"There are: {listed}."
        ) from None
    if len(wanted) == len("2026-11-25"):
        until += datetime.timedelta(days=1)
    last = max(found, key=lambda version: version.last_written(until.timestamp()))
    if last.last_written(until.timestamp()) == -math.inf:
        raise InputError(f"{found[0].folder} has no version of {wanted} or before. There are: {listed}.")
    return last


def current_since(folder: Path, version: str) -> int:
    """When the current version of a set became so, in nanoseconds since 1970."""
    written = _written(folder / version)
    return _written(folder) if written == NEVER else written


def earlier_times(folder: Path, version: str) -> list[int]:
    """When a version became current before it came back, in nanoseconds since 1970, the first time first."""
    return sorted(path.stat().st_mtime_ns for path in folder.glob(f".{version}.*") if NOTED_TIME.fullmatch(path.name))


def holds_other_manifest(folder: Path) -> bool:
    """Return True if a folder holds a file with our manifest's name, but was not written by our steps."""
    if not (folder / MANIFEST_FILE).is_file() or is_data_set(folder):
        return False
    # Beside versions it is one of ours, damaged.
    return not any(
        VERSION_FOLDER.fullmatch(path.name) and (path / MANIFEST_FILE).is_file() for path in folder.iterdir()
    )


def is_data_set(folder: Path) -> bool:
    """Return True if one of our steps wrote a manifest into a folder."""
    manifest = folder / MANIFEST_FILE
    return manifest.is_file() and b'"content_hash"' in manifest.read_bytes()


def _sets(folder: Path, depth: int) -> Iterator[Path]:
    if is_data_set(folder):
        yield folder
    elif depth:
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from _sets(Path(entry.path), depth - 1)


def _written(folder: Path) -> int:
    return (folder / MANIFEST_FILE).stat().st_mtime_ns


def _shown(written: float) -> str:
    return datetime.datetime.fromtimestamp(written).isoformat(" ", "minutes")
