"""Reads a checkpoint's files and checks them against its manifest before they are used."""

from __future__ import annotations

import json
import zlib
from typing import Any

from drivetrain.training.checkpointing.places import Place
from drivetrain.training.checkpointing.store.manifest import DamagedError, FileEntry, Manifest
from drivetrain.training.checkpointing.tensors.host_buffer import HostBuffer
from drivetrain.training.checkpointing.tensors.index import INDEX_FILE, STATE_FILE, Index


def read_checked(place: Place, folder: str, manifest: Manifest, name: str) -> bytes:
    """A small file.

    Raises:
        DamagedError: it differs from what the manifest says, or is not listed.
    """
    data = place.read(f"{folder}/{name}")
    _compare(name, _entry(manifest, name), len(data), zlib.crc32(data))
    return data


def check_file(place: Place, folder: str, manifest: Manifest, name: str) -> None:
    """
    Raises:
        DamagedError: it differs from what the manifest says.
    """
    _compare(name, _entry(manifest, name), *place.checksum(f"{folder}/{name}"))


def read_file(place: Place, folder: str, manifest: Manifest, name: str) -> HostBuffer:
    """A file of tensors, in memory.

    Raises:
        DamagedError: it differs from what the manifest says.
    """
    expected = _entry(manifest, name)
    buffer = HostBuffer(expected.size, for_copies=False)
    _compare(name, expected, expected.size, place.read_into(f"{folder}/{name}", buffer.view(expected.size)))
    return buffer


def check_places(index: Index, manifest: Manifest) -> None:
    """
    Raises:
        DamagedError: the index points outside of the checkpoint's files.
    """
    if problem := index.misplaced({file.name: file.size for file in manifest.files}):
        raise DamagedError(problem, file=INDEX_FILE)


def parse_values(data: bytes) -> dict[str, Any]:
    """
    Raises:
        DamagedError: it is no JSON object.
    """
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise DamagedError(f"{STATE_FILE} is no JSON ({problem})", file=STATE_FILE) from None
    strategy = values.get("strategy") if isinstance(values, dict) else None
    groups = strategy.get("groups") if isinstance(strategy, dict) else None
    if not isinstance(groups, list) or not all(_is_group(group) for group in groups):
        raise DamagedError(f"{STATE_FILE} is not what a training writes", file=STATE_FILE)
    return values


def _is_group(given: Any) -> bool:
    """Return True for a group of an optimizer's parameters that is given by names."""
    names = given.get("params") if isinstance(given, dict) else None
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _compare(name: str, expected: FileEntry, size: int, checksum: int) -> None:
    if (size, checksum) != (expected.size, expected.crc32):
        raise DamagedError(
            f"{name} differs from its checksum",
            file=name,
            expected=f"{expected.size} bytes, {expected.crc32:08x}",
            found=f"{size} bytes, {checksum:08x}",
        )


def _entry(manifest: Manifest, name: str) -> FileEntry:
    try:
        return manifest.file(name)
    except KeyError:
        raise DamagedError(f"the checkpoint has no {name}", file=name) from None
