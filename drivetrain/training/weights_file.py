"""The file that a training starts from, and a check that it is the same as last time."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from pathlib import Path

from drivetrain.base.errors import InputError
from drivetrain.training.model_folder import WEIGHTS_FILE
from drivetrain.training.process import Process

ARCHIVE = "model.tar.gz"
# As in drivetrain.registry.model_folder: weights hardly shrink, so more than this is no model.
MOST_GROWTH = 20
MOST_BYTES_OF_SMALL_ARCHIVE = 64 << 20


def find_weights(path: Path) -> Path:
    """The file at `path`, or in the folder `path`: a model folder's, a platform's archive of one, or the only file.

    Raises:
        InputError: none, or several.
    """
    if not path.is_dir():
        if not path.is_file():
            raise InputError(f"weights {str(path)!r}: no such file. Give a file of weights, or a model folder.")
        return path
    for name in (WEIGHTS_FILE, ARCHIVE):
        if (path / name).is_file():
            return path / name
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    if len(files) != 1:
        shown = ", ".join(file.name for file in files[:5]) + (", ..." if files[5:] else "")
        raise InputError(
            f"weights {str(path)!r} holds {len(files)} files{': ' if files else ''}{shown}. "
            "Give one file of weights, or a model folder."
        )
    return files[0]


def shared_hash(path: Path, process: Process) -> str:
    """SHA-256 of the file, which one rank reads for all. Every rank must call it.

    Raises:
        InputError: no file, or several.
    """
    file, digest = find_weights(path), None
    if process.is_main:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").digest()
    return process.broadcast_bytes(digest).hex()


def unpacked(archive: Path) -> bytes:
    """The weights in the archive of a model folder. Nothing of it is written anywhere.

    Raises:
        InputError: a damaged archive, one without weights, or with more than its size explains.
    """
    most = max(MOST_BYTES_OF_SMALL_ARCHIVE, MOST_GROWTH * archive.stat().st_size)
    read = 0
    try:
        with tarfile.open(archive, mode="r|gz") as members:
            for member in members:
                read += member.size
                if read > most:
                    raise InputError(f"weights {str(archive)!r} unpack to more than {most:,} bytes: not a model.")
                stream = (
                    members.extractfile(member) if member.isreg() and Path(member.name) == Path(WEIGHTS_FILE) else None
                )
                if stream is not None:
                    return stream.read()
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"weights {str(archive)!r} are not a whole .tar.gz: {error}") from None
    raise InputError(f"weights {str(archive)!r} holds no {WEIGHTS_FILE}. Give the output `model` of a training step.")
