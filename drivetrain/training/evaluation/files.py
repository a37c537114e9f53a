"""The files of a report: each is whole or not there, and what an earlier evaluation left does not stay among them."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.registry.report_hash import MODEL_QUALITY_FILE as MODEL_QUALITY_FILE
from drivetrain.registry.report_hash import hash_of

EVALUATION_FILE = "evaluation.json"
BOOTSTRAP_FILE = "bootstrap.json"
CURVES_FILE = "curves.json"
WORST_FILE = "worst.json"
SUSPECTS_FILE = "suspects.json"
ROWS_FILE = "rows.npz"
PLOTS_FOLDER = "plots"
PREDICTIONS_FOLDER = "predictions"
_OWN_FILES = (EVALUATION_FILE, BOOTSTRAP_FILE, CURVES_FILE, MODEL_QUALITY_FILE, WORST_FILE, SUSPECTS_FILE, ROWS_FILE)
_OWN_PLOT = re.compile(r"\.?[A-Za-z0-9_.-]+\.svg(\.partial)?")
_OWN_PART = re.compile(r"\.?part-\d{5,}\.parquet(\.partial)?")


def check(path: Path) -> None:
    """Find out, before there is something to write, whether a file can be written. (A disk may still fill up.)

    Raises:
        OSError: it cannot.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    _partial(path).touch()
    _partial(path).unlink()


def clear(report: Path) -> None:
    """Make the folder, and remove what an earlier evaluation wrote there; other files are left alone.

    evaluation.json goes first: ended here, it must not outlive what it describes.

    Raises:
        OSError: something there is in the way, or nothing can be written there.
    """
    for folder in (report, report / PLOTS_FOLDER, report / PREDICTIONS_FOLDER):
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    for name in _OWN_FILES:
        check(report / name)
    for name in _OWN_FILES:
        for path in (report / name, _partial(report / name)):
            path.unlink(missing_ok=True)
    for name, own in ((PLOTS_FOLDER, _OWN_PLOT), (PREDICTIONS_FOLDER, _OWN_PART)):
        folder = report / name
        for path in folder.iterdir() if folder.is_dir() else ():
            if own.fullmatch(path.name):
                path.unlink()


def parts(report: Path) -> dict[str, str]:
    """The SHA-256 of each file of a report but evaluation.json, by its name."""
    own = [report / name for name in _OWN_FILES if name != EVALUATION_FILE]
    for name, pattern in ((PLOTS_FOLDER, _OWN_PLOT), (PREDICTIONS_FOLDER, _OWN_PART)):
        own += [path for path in sorted((report / name).glob("*")) if pattern.fullmatch(path.name)]
    return {path.relative_to(report).as_posix(): hashed for path in own if (hashed := hash_of(path))}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Indented, in the order given. There is neither NaN nor an infinity in it."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """As an .npz file, not compressed: the same bytes whatever the version of zlib."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def writable(folder: Path, advice: str) -> Generator[None]:
    """
    Raises:
        InputError: what the block writes into `folder` cannot be written (a full disk, a file in its place).
    """
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)  # (Arrow has words of its own)
        raise InputError(f"{folder} cannot be written: {reason}. {advice}") from error


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A name to write under; the file gets its own when the block ends well, and is removed when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _partial(path)
    try:
        yield temporary
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    temporary.replace(path)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")
