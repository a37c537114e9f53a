"""The versions of a prepared data set or a transformed table: found below a folder, and named by hash or by date.

A version's own folder (`train/3f6c0a41b2d7`) can be given wherever a folder of data is read. Its time is that of its
manifest's file, when it was written; a copy that does not keep times is as old as the copy.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from drivetrain.base.errors import InputError
from drivetrain.data.manifest import MANIFEST_FILE, Manifest

VERSION_FOLDER = re.compile(r"[0-9a-f]{12}")
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
    found = [
        Version(folder, path, Manifest.read(path, checksums=False), _written(path), path.name == current.version)
        for path in folder.iterdir()
        if VERSION_FOLDER.fullmatch(path.name) and (path / MANIFEST_FILE).is_file()
    ]
    if not any(version.is_current for version in found):
        found.append(Version(folder, folder, current, _written(folder), True))
    return sorted(found, key=lambda version: (version.written, version.is_current), reverse=True)


def version_at(found: Sequence[Version], wanted: str) -> Version:
    """The version of a set that is called so: by the beginning of its hash, or the last one that was written up to a
    date (its end) or a time, in this machine's zone unless it has one.

    Raises:
        InputError: there is none.
    """
    named = [version for version in found if version.manifest.content_hash.startswith(wanted)]
    if _HASH.fullmatch(wanted) and len(named) == 1:
        return named[0]
    listed = ", ".join(f"{each.manifest.version} of {_shown(each.written)}" for each in found)
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
    earlier = [version for version in found if version.written < until.timestamp()]
    if not earlier:
        raise InputError(f"{found[0].folder} has no version of {wanted} or before. There are: {listed}.")
    return earlier[0]


def is_data_set(folder: Path) -> bool:
    """Whether one of our steps wrote a manifest into a folder."""
    manifest = folder / MANIFEST_FILE
    return manifest.is_file() and b'"content_hash"' in manifest.read_bytes()


def _sets(folder: Path, depth: int) -> Iterator[Path]:
    if is_data_set(folder):
        yield folder
    elif depth:
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from _sets(Path(entry.path), depth - 1)


def _written(folder: Path) -> float:
    return (folder / MANIFEST_FILE).stat().st_mtime


def _shown(written: float) -> str:
    return datetime.datetime.fromtimestamp(written).isoformat(" ", "minutes")
