"""Read what a training records of its starts: `attempts/NNNNN.json` in its checkpoint folder, one file a start.

    {"number": 3, "started": 1763688012.5, "first_step": 120, "step": 171, "time": ..., "saves": 2, ...}

The training (or, for programs that do not know of it, the launcher) writes them; drivetrain/training/checkpointing
tells what is in them. They are read on the host before it goes: what was written last may never reach the store.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

_MAX_BYTES = 64 * 1024
Seen = Mapping[Path, bytes]


def seen(folders: Iterable[Path]) -> Seen:
    """The files of earlier starts, as they lie in the checkpoint folders now."""
    return {path: _content(path) for folder in folders for path in _files(folder)}


def latest(folders: Iterable[Path], before: Seen) -> dict[str, Any]:
    """Read the record of the latest start whose file is new or differs from `before`. Its `training` is the name of the
    subfolder with its checkpoints ("": the checkpoint folder itself). Empty without such a record."""
    changed = [
        (path.name, content, "" if path.parents[1] == folder else path.parents[1].name)
        for folder in folders
        for path in _files(folder)
        if (content := _content(path)) and before.get(path) != content
    ]
    for _, content, training in sorted(changed, reverse=True):
        try:
            given = json.loads(content)
        except (ValueError, RecursionError):
            continue  # half of it was written
        if isinstance(given, dict):
            return {**cast("dict[str, Any]", given), "training": training}
    return {}


def _files(folder: Path) -> list[Path]:
    found = [*folder.glob("attempts/*.json"), *folder.glob("*/attempts/*.json")]
    # A launcher's own count of starts (.drivetrain/) knows of no steps.
    return [path for path in found if not path.parents[1].name.startswith(".") or path.parents[1] == folder]


def _content(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""  # it is no file, or went meanwhile
