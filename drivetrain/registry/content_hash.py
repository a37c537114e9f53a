"""The name of a model's content: one hash for a folder and for any archive of it.

The bytes of a model.tar.gz hold time stamps, owners and the compressor's habits, so the same weights packed twice give
two files. What is hashed here is the manifest of the files inside:

    SHA-256 of the JSON [["model.json", "<SHA-256 of its bytes>"], ["weights/0.safetensors", "..."], ...]

sorted by name, ASCII, without white space. Folders, empty ones too, file modes and times do not count. Nothing is
unpacked, and nothing in the archive is trusted.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from drivetrain.base.errors import InputError

ARCHIVE = "model.tar.gz"
# Nothing is written, so a bomb costs time only; text of zeros packs well, hence a wider bound than where files are
# unpacked. The floor lets small archives be.
MOST_GROWTH = 100
MOST_BYTES_OF_SMALL_ARCHIVE = 64 << 20
MOST_FILES = 100_000
_READ_BYTES = 1 << 20
_ZIPPED = (".pt", ".pth", ".keras", ".npz", ".zip")
_ZIP, _END_OF_ZIP, _MOST_AFTER_END = b"PK\x03\x04", b"PK\x05\x06", 22 + 65_535
_LENGTH = 8  # bytes of the header's length, of a safetensors file


def content_hash(path: Path) -> str:
    """SHA-256, 64 hex digits, of the files in a folder or in a .tar.gz; see `files_in`.

    Raises:
        InputError: as `files_in`.
    """
    return hash_of_files(files_in(path))


def hash_of_files(files: Mapping[str, str]) -> str:
    """The hash of a content, from its files (name -> SHA-256 of the bytes)."""
    manifest = json.dumps(sorted(files.items()), separators=(",", ":"))
    return hashlib.sha256(manifest.encode("ascii")).hexdigest()


def files_in(path: Path, *, whole: bool = False) -> dict[str, str]:
    """The files in a folder or .tar.gz: name, with slashes, -> SHA-256 of the bytes in hex.

    A folder that holds nothing but model.tar.gz, as a platform hands a trained model on, counts as that archive.

    Args:
        whole: refuse weights that were cut off, where their format tells (`torn`).

    Raises:
        InputError: nothing there, no file in it, a link or device, a name outside the folder or given twice, a damaged
            archive, or one that unpacks to far more than its size explains; weights that were cut off.
    """
    try:
        if path.is_dir():
            files = dict(_in_folder(path, whole))
            if list(files) == [ARCHIVE]:
                return files_in(path / ARCHIVE, whole=whole)
        elif path.is_file():
            files = _in_archive(path, whole)
        else:
            raise InputError(f"{path}: no such file or folder. Give a model's folder or its {ARCHIVE}.")
    except OSError as error:
        raise InputError(f"{error.filename or path} cannot be read: {error.strerror or error}.") from None
    if not files:
        raise InputError(f"{path} holds no files. Give the folder or archive that a training step wrote.")
    return files


def _in_folder(root: Path, whole: bool) -> Iterator[tuple[str, str]]:
    pending = [root]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    with open(entry.path, "rb") as file:
                        name = Path(entry.path).relative_to(root).as_posix()
                        yield name, _sha256(file, name if whole else "")
                else:
                    raise InputError(f"{entry.path} is a link or device; a model holds only files and folders.")


def _in_archive(path: Path, whole: bool) -> dict[str, str]:
    most = max(MOST_BYTES_OF_SMALL_ARCHIVE, MOST_GROWTH * path.stat().st_size)
    try:
        with gzip.open(path) as stream:
            bounded = Bounded(stream, most, path)
            with tarfile.open(fileobj=bounded, mode="r|") as archive:
                files = _members(archive, path, most, whole)
            while bounded.read(_READ_BYTES):  # to the checksum at the end, which vouches for all before it
                pass
            return files
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a whole .tar.gz: {error}.") from None


def _members(archive: tarfile.TarFile, path: Path, most: int, whole: bool) -> dict[str, str]:
    files: dict[str, str] = {}
    total = 0
    for number, member in enumerate(archive):
        name = PurePosixPath(member.name)
        if name.is_absolute() or ".." in name.parts:
            raise InputError(f"{path} holds {member.name!r}, which lies outside of it.")
        if number >= MOST_FILES:
            raise InputError(f"{path} holds more than {MOST_FILES:,} files and folders: not a model.")
        if member.isdir():
            continue
        if not member.isreg() or member.issparse():
            raise InputError(f"{path} holds {member.name!r}, a link, device or sparse file; a model holds plain files.")
        total += member.size
        if total > most:  # known from the headers, before the bytes are read
            raise too_large(path, most)
        content = archive.extractfile(member)
        if content is None or str(name) in files:
            raise InputError(f"{path} holds {member.name!r} twice.")
        files[str(name)] = _sha256(content, str(name) if whole else "")
    return files


def _sha256(file: IO[bytes], whole: str = "") -> str:
    """The hash of a file; of one that has to be `whole`, its name, which is held against its format's own length."""
    digest, size = hashlib.sha256(), 0
    head = tail = b""
    while block := file.read(_READ_BYTES):
        digest.update(block)
        size += len(block)
        head, tail = head or block, block if len(block) == _READ_BYTES else tail + block
    if whole and (missing := torn(whole, head, tail, size)):
        raise InputError(f"{whole} was cut off or damaged: {missing}. Train or copy the model again.")
    return digest.hexdigest()


def too_large(path: Path, most: int) -> InputError:
    return InputError(f"{path} unpacks to more than {most:,} bytes, which its size does not explain: not a model.")


class Bounded(io.RawIOBase):
    """A stream that ends with an error after `most` bytes, whatever the archive's own headers say."""

    def __init__(self, stream: gzip.GzipFile, most: int, path: Path) -> None:
        self.stream, self.left, self.most, self.path = stream, most, most, path

    def read(self, size: int = -1, /) -> bytes:
        data = self.stream.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise too_large(self.path, self.most)
        return data


def torn(name: str, head: bytes, tail: bytes, size: int) -> str:
    """Describe what is missing of a file; "" for a whole one, and for a format that does not say its length.

    Args:
        head: its beginning; a header of safetensors that is longer is not looked into.
        tail: its end.
        size: its bytes.
    """
    if name.endswith(".safetensors"):
        return _torn_safetensors(head, size) if head[_LENGTH : _LENGTH + 1] == b"{" else "" if size else "it is empty"
    if name.endswith(_ZIPPED) and head.startswith(_ZIP) and _END_OF_ZIP not in tail[-_MOST_AFTER_END:]:
        return "its end, where the list of its parts stands, is missing"
    return ""


def _torn_safetensors(head: bytes, size: int) -> str:
    """https://github.com/huggingface/safetensors#format"""
    start = _LENGTH + int.from_bytes(head[:_LENGTH], "little")
    if start > size:
        return f"it has {size:,} bytes, and its header alone {start:,}"
    if start > len(head):
        return ""
    try:
        header: Any = json.loads(head[_LENGTH:start])
        entries = cast("dict[str, Any]", header).items()
        ends = [int(entry["data_offsets"][1]) for name, entry in entries if name != "__metadata__"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "its header is no list of tensors"
    expected = start + max(ends, default=0)
    return "" if size == expected else f"it has {size:,} bytes, and its header says {expected:,}"
