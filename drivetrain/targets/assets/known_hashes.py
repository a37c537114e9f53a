"""Hashes that were worked out before, kept in the user's cache folder by what they depend on.

    stamp = stamp_of([("drivetrain/steps/start.py", "/.../steps/start.py"), ...])
    known_hash(key)          # None, or what `keep_hash(key, sha256)` was given

A stamp says of files what the file system tells without reading them: inode, size, and the times of the last change of
content and inode. Nobody can set the latter (ctime), so an edit that keeps a file's size and restores its time is
noticed. Two edits within one tick of the file system's clock may leave the same stamp: a hash is to be kept only for
files that had settled when the stamp was taken, and that have the same stamp once they are read.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from typing import NamedTuple

# No file system in use counts in longer ticks than FAT's, of two seconds.
SETTLED_S = 3.0
# Each is a line of 64 characters; a hash that is needed again is worked out again.
MOST_KEPT = 64
_HEXADECIMAL = frozenset(b"0123456789abcdef")


class Stamp(NamedTuple):
    """`digest` differs when a file has another name, is another or has changed; `settled` says that none is so new
    that a further edit could leave the stamp as it is."""

    digest: str
    settled: bool


def stamp_of(files: Iterable[tuple[str, str]]) -> Stamp:
    """The stamp of files, each with the name that it has in what is hashed, and its path.

    Raises:
        OSError: a file is not there.
    """
    now = time.time_ns()
    newest = 0
    lines: list[str] = []
    for name, path in files:
        found = os.stat(path)
        newest = max(newest, found.st_mtime_ns, found.st_ctime_ns)
        lines.append(
            f"{name}\0{path}\0{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
        )
    digest = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    return Stamp(digest, now - newest > SETTLED_S * 1e9)


def known_hash(key: str) -> str | None:
    """The hash that is kept for a key."""
    folder = _folder()
    if folder is None:
        return None
    try:
        with open(f"{folder}/{key}", "rb") as file:
            found = file.read(65)
    except OSError:
        return None
    # A computer that went down may leave a file with other content.
    return found.decode() if len(found) == 64 and _HEXADECIMAL.issuperset(found) else None


def keep_hash(key: str, sha256: str) -> None:
    """Keep a hash; where that is not possible, it is worked out each time."""
    folder = _folder()
    if folder is None:
        return
    beside = f"{folder}/{os.urandom(8).hex()}.part"
    try:
        os.makedirs(folder, exist_ok=True)
        with open(beside, "xb") as file:
            file.write(sha256.encode())
        os.replace(beside, f"{folder}/{key}")
        _remove_oldest(folder)
    except OSError:
        return


def _folder() -> str | None:
    """$XDG_CACHE_HOME/drivetrain/code or ~/.cache/drivetrain/code; None for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = os.path.expanduser("~/.cache")
    return f"{base}/drivetrain/code" if base.startswith("/") else None


def _remove_oldest(folder: str) -> None:
    with os.scandir(folder) as entries:
        by_age = sorted((entry.stat().st_mtime_ns, entry.path) for entry in entries)
    for _, path in by_age[:-MOST_KEPT]:
        os.unlink(path)
