"""A file or a model folder that appears under its name when it is whole and durable, and not before."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drivetrain.training_scripts.errors import InputError

# As in drivetrain.training_scripts.models.saved_model, which needs torch.
DESCRIPTION_FILE, WEIGHTS_FILE, MODEL_FORMAT = "model.json", "model.safetensors", 1
_UNFINISHED = ".partial"


@contextmanager
def named_as_given(to: Path) -> Generator[None]:
    """What cannot be written is told by the name that was given, and not by that which it has until it is whole.

    Raises:
        InputError: it cannot be written.
    """
    try:
        yield
    except OSError as error:
        if not isinstance(error.filename, str) or not error.filename.endswith(_UNFINISHED):
            raise
        raise InputError(f"{to} cannot be written: {error.strerror}. Give another place.") from error


def _unfinished(name: str) -> str:
    """The name of a file or a folder until it is whole."""
    return f".{name}.{os.getpid()}{_UNFINISHED}"


def write_file(to: Path, data: Iterable[bytes | bytearray]) -> tuple[int, str]:
    """Write a file whole or not at all; gives its size and SHA-256."""
    with _partial(to, data) as (partial, size, digest):
        partial.replace(to)
        _sync(to.parent)
    return size, digest


@contextmanager
def _partial(to: Path, data: Iterable[bytes | bytearray]) -> Generator[tuple[Path, int, str]]:
    """A durable file beside `to`, with its size and SHA-256; it goes with the context, unless it was renamed."""
    partial = to.with_name(_unfinished(to.name))
    digest, size = hashlib.sha256(), 0
    try:
        with partial.open("wb") as stream:
            for piece in data:
                stream.write(piece)
                digest.update(piece)
                size += len(piece)
            stream.flush()
            os.fsync(stream.fileno())
        yield partial, size, digest.hexdigest()
    finally:
        partial.unlink(missing_ok=True)


def write_folder(to: Path, data: Iterable[bytes | bytearray], description: Mapping[str, Any]) -> tuple[int, str]:
    """As write_file, a model folder. A new one gets its name when it is whole. In an old one nothing changes before
    the new weights are durable; then model.json, without which it is no model, goes first and comes last."""
    if to.is_dir():
        with _partial(to / WEIGHTS_FILE, data) as (weights, size, digest):
            (to / DESCRIPTION_FILE).unlink(missing_ok=True)
            _sync(to)
            weights.replace(to / WEIGHTS_FILE)
            write_file(to / DESCRIPTION_FILE, [_described(description, size, digest)])
        return size, digest
    folder = to.with_name(_unfinished(to.name))
    folder.mkdir()
    try:
        size, digest = write_file(folder / WEIGHTS_FILE, data)
        write_file(folder / DESCRIPTION_FILE, [_described(description, size, digest)])
        folder.rename(to)
        _sync(to.parent)
    finally:
        if folder.is_dir():
            shutil.rmtree(folder)
    return size, digest


def _described(description: Mapping[str, Any], size: int, digest: str) -> bytes:
    """model.json, as models.saved_model writes it."""
    weights = {"file": WEIGHTS_FILE, "bytes": size, "sha256": digest}
    complete = {"format": MODEL_FORMAT, "weights": weights, **description}
    return (json.dumps(complete, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
