"""The accepted version of data sets: increments go on from it, and it is never removed.

    sets/accepted.json      {"format": 1, "who": "ann", "why": "...", "day": "2026-11-30",
                             "sets": {"train": {"version": "3f6c0a41b2d7", "content_hash": "<64 hex digits>"}, ...}}

It lies in the folder above the sets of a run, or in that of a table alone (whose side is ""). One move replaces it, for
all sides together. Without it the current version counts.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from string import hexdigits
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.base.file_locks import make_durable
from drivetrain.data.manifest import MANIFEST_FILE, Manifest
from drivetrain.data.versions import VERSION_FOLDER, is_data_set, version_at, versions

ACCEPTED_FILE = "accepted.json"
_FORMAT = 1


def accept(root: Path, *, who: str, why: str = "", at: str = "", day: datetime.date | None = None) -> dict[str, Any]:
    """Accept versions of the sets in a folder, all sides together.

    Args:
        root: the folder above the sets of one run, or the folder of a table.
        who: the person or the program that accepts.
        why: its reason.
        at: the version of a date or time, or the beginning of its hash (of one of the sides); the current one unless
            given.
        day: today, unless given.

    Returns:
        The file's content.

    Raises:
        InputError: there is no set, or the versions are of different runs.
    """
    folders = {"": root} if is_data_set(root) else {}
    if not folders and root.is_dir():
        folders = {path.name: path for path in sorted(root.iterdir()) if is_data_set(path)}
    if not folders:
        raise InputError(f"{root} holds no data set. Give the folder above train, validation and test, or a table's.")
    chosen = _of_one_run(root, folders, at)
    sets = {side: {"version": each.version, "content_hash": each.content_hash} for side, each in chosen.items()}
    today = (day or datetime.date.today()).isoformat()
    content = {"format": _FORMAT, "who": who, "why": why, "day": today, "sets": sets}
    beside = root / f".{ACCEPTED_FILE}.partial"
    with beside.open("w", encoding="utf-8", newline="\n") as file:
        json.dump(content, file, ensure_ascii=False, indent=1)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(root / ACCEPTED_FILE)
    make_durable(root)
    return content


def accepted_set(root: Path, side: str) -> Path | None:
    """The folder of the accepted version of a side; None where nothing was accepted.

    Raises:
        InputError: the file is damaged, or its version is gone or another one.
    """
    entry = _entries(root).get(side)
    if entry is None:
        return None
    folder = root / side / entry["version"]
    advice = f"Accept another one (drivetrain data accept {root}), or remove the file."
    if not (folder / MANIFEST_FILE).is_file():
        raise InputError(f"{root / ACCEPTED_FILE} names {folder}, which is gone. {advice}")
    if Manifest.read(folder, checksums=False).content_hash != entry["content_hash"]:
        raise InputError(f"{root / ACCEPTED_FILE} names {folder}, which was altered since. {advice}")
    return folder


def accepted_version(folder: Path) -> str | None:
    """The name of the accepted version of the set in a folder.

    Raises:
        InputError: the file that says so is damaged.
    """
    entry = _entries(folder).get("") or _entries(folder.parent).get(folder.name)
    return entry["version"] if entry else None


def _of_one_run(root: Path, folders: Mapping[str, Path], at: str) -> dict[str, Manifest]:
    """The manifests of one run's versions, by side."""
    found = {side: versions(folder) for side, folder in folders.items()}
    if formerly := next((folder for side, folder in folders.items() if found[side][0].path == folder), None):
        raise InputError(f"{formerly} is of format 1, which has no versions. Run prepare_data again.")
    side = next(iter(found))
    if at and all(letter in hexdigits for letter in at):  # the name of a version of one side
        side = next((name for name, each in found.items() if any(v.name.startswith(at) for v in each)), side)
    first = version_at(found[side], at) if at else next(each for each in found[side] if each.is_current)
    sources = first.manifest.lineage.get("sources")
    chosen: dict[str, Manifest] = {}
    for name, each in found.items():
        same_run = [version for version in each if version.manifest.lineage.get("sources") == sources]
        same_run = [version for version in same_run if at or version.is_current]
        if not same_run:
            raise InputError(f"the sets in {root} are of different runs: {name} has no version of that of {side}.")
        chosen[name] = first.manifest if name == side else same_run[0].manifest
    return chosen


def _entries(root: Path) -> Mapping[str, Mapping[str, str]]:
    """Side -> version and content hash; empty without a file."""
    path = root / ACCEPTED_FILE
    try:
        content: Any = json.loads(path.read_bytes())
        sets: dict[str, dict[str, str]] = dict(content["sets"])
        if content["format"] != _FORMAT or not all(
            VERSION_FOLDER.fullmatch(each["version"]) and len(each["content_hash"]) == 64 for each in sets.values()
        ):
            raise ValueError("another format, or versions that are none")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        advice = f"Accept a version again (drivetrain data accept {root}), or remove the file."
        raise InputError(f"{path} is damaged ({str(error)[:80]}). {advice}") from None
    return sets
