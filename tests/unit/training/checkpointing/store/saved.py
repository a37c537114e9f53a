"""Checkpoints of a few bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest
from drivetrain.training.checkpointing.store.store import Store


def save(store: Store, step: int, values: dict[str, Any] | None = None, *, content: bytes = b"") -> str:
    folder = store.begin(step)
    files = {"weights": content or b"%d" % step * 1000, "part/optimizer": b"%d" % -step * 10}
    entries = tuple(
        FileEntry(name, len(data), store.place.write(f"{folder}/{name}", data)) for name, data in files.items()
    )
    store.commit(Manifest(step=step, files=entries, values=values or {}))
    return folder


def content(path: Path) -> dict[str, bytes]:
    return {found.relative_to(path).as_posix(): found.read_bytes() for found in path.rglob("*") if found.is_file()}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
