"""Writes a file or a model folder that appears under its name only when it is whole and durable."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.base.file_locks import make_durable
from drivetrain.training.model_folder import CODE, CODE_FOLDER, DESCRIPTION_FILE, WEIGHTS_FILE, description_of

_UNFINISHED = ".partial"


@contextmanager
def named_as_given(to: Path) -> Generator[None]:
    """Errors name the path that was given, not the temporary one.

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
        make_durable(to.parent)
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
    """As write_file, a model folder; `code` of the description (name -> text) becomes the files of code/.

    A new one gets its name when it is whole. In an old one nothing changes before the new weights and code are durable;
    then model.json, without which it is no model, goes first and comes last.

    Raises:
        InputError: a file of code/ would lie elsewhere.
    """
    code = _checked_code(description.get(CODE, {}))
    if to.is_dir():
        with _partial(to / WEIGHTS_FILE, data) as (weights, size, digest), _partial_code(to, code) as new_code:
            (to / DESCRIPTION_FILE).unlink(missing_ok=True)
            make_durable(to)
            if (to / CODE_FOLDER).is_dir():
                shutil.rmtree(to / CODE_FOLDER)
            if code:
                new_code.rename(to / CODE_FOLDER)
            weights.replace(to / WEIGHTS_FILE)
            write_file(to / DESCRIPTION_FILE, [description_of(description, size, digest)])
        return size, digest
    folder = to.with_name(_unfinished(to.name))
    folder.mkdir()
    try:
        size, digest = write_file(folder / WEIGHTS_FILE, data)
        _write_code(folder / CODE_FOLDER, code)
        write_file(folder / DESCRIPTION_FILE, [description_of(description, size, digest)])
        folder.rename(to)
        make_durable(to.parent)
    finally:
        if folder.is_dir():
            shutil.rmtree(folder)
    return size, digest


def _checked_code(code: Any) -> Mapping[str, str]:
    """The files of code/, with checked names: a checkpoint is untrusted and must not write elsewhere."""
    for name, text in code.items() if isinstance(code, Mapping) else [(CODE, None)]:
        path = PurePosixPath(name)
        plain = not path.is_absolute() and ".." not in path.parts and path.suffix == ".py" and "\0" not in name
        if not plain or not isinstance(text, str):
            raise InputError(f"the checkpoint's description names {name!r:.100}, which is no module of a model.")
    return code


@contextmanager
def _partial_code(to: Path, code: Mapping[str, str]) -> Generator[Path]:
    """The files of code/ in a durable folder beside it, which goes with the context, unless it was renamed."""
    partial = to / _unfinished(CODE_FOLDER)
    try:
        _write_code(partial, code)
        yield partial
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)


def _write_code(folder: Path, code: Mapping[str, str]) -> None:
    for name, text in code.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
    for made in {folder.joinpath(name).parent for name in code}:
        make_durable(made)
