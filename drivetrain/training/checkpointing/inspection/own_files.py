"""List a place that no training of ours has written to: the checkpoints of a script that names them itself.

Only names, sizes and times are looked at. What a file means, and whether it is whole, its own program knows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from drivetrain.training.checkpointing import attempts
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.store.lock import LOCK_FILE
from drivetrain.training.checkpointing.store.sync_lag import is_mark

# A folder of the machine may be given by mistake, and be its largest.
_COUNTED = 20_000


@dataclass(frozen=True, kw_only=True)
class OwnFile:
    """A file at the top of the place, or a folder with all that is in it (its `name` ends with a slash).

    `modified` is the latest change in seconds since the epoch. `files` and `bytes` are None of a folder that holds too
    many files to be counted, `modified` where nothing tells it.
    """

    name: str
    files: int | None
    bytes: int | None
    modified: float | None


def own_files(uri: str) -> list[OwnFile]:
    """List the top of a place: by the numbers in the names, the highest first; then names without a number.

    Nothing where there are no files.
    """
    found = _in_store(uri) if "://" in uri else list(_in_folder(Path(uri)))
    if not any(each.files != 0 for each in found):
        return []
    return sorted(sorted(found, key=lambda each: each.name), key=lambda each: _numbers(each.name), reverse=True)


def is_ours(names: Iterable[str]) -> bool:
    """Return True if a training of ours has begun in a place or in a folder of it, by the names there."""
    own = {LOCK_FILE, attempts.FOLDER}
    return any(part in own for name in names for part in name.split("/")[:2])


def _in_folder(folder: Path) -> Iterator[OwnFile]:
    left = _COUNTED
    for entry in list(os.scandir(folder)):
        if is_mark(entry.name):
            continue
        try:
            itself = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # its program was quicker
            continue
        if not entry.is_dir(follow_symlinks=False):
            yield OwnFile(name=entry.name, files=1, bytes=itself.st_size, modified=itself.st_mtime)
            continue
        held = list(islice(_below(entry.path), left + 1))
        too_many = len(held) > left
        left = max(0, left - len(held))
        yield OwnFile(
            name=f"{entry.name}/",
            files=None if too_many else len(held),
            bytes=None if too_many else sum(file.st_size for file in held),
            modified=max((file.st_mtime for file in held), default=itself.st_mtime),
        )


def _below(folder: str) -> Iterator[os.stat_result]:
    """The stat result of each file below a folder; unreadable ones are skipped."""
    for path, _, names in os.walk(folder):
        for name in names:
            if is_mark(name):
                continue
            try:
                yield os.lstat(os.path.join(path, name))
            except FileNotFoundError:
                continue


def _in_store(uri: str) -> list[OwnFile]:
    place: Any = open_place(uri)
    sizes: dict[str, int] = place.names()
    moments: dict[str, float] = {}
    by_top: dict[str, list[str]] = {}
    for name in sizes:
        top, slash, _ = name.partition("/")
        if not is_mark(name):
            by_top.setdefault(top + slash, []).append(name)
    if (arrived_at := getattr(place, "arrived_at", None)) is not None:
        moments = arrived_at("")
    return [
        OwnFile(
            name=top,
            files=len(names),
            bytes=sum(sizes[name] for name in names),
            modified=max((moments[name] for name in names if name in moments), default=None),
        )
        for top, names in by_top.items()
    ]


def _numbers(name: str) -> tuple[int, ...]:
    """The numbers in a name, without its ending: `epoch=3-step=120.ckpt` is (3, 120)."""
    return tuple(map(int, re.findall(r"\d+", Path(name).stem, re.ASCII)))
