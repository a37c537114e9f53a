"""The manifest of a checkpoint: its files, and the checksums that detect damage.

    {"sha256":"<of the body's bytes>",
    "manifest":{"format": 1, "step": 120, "files": [{"name": ..., "size": ..., "crc32": ...}], "values": {...}}}

The body is hashed as it lies there, byte for byte, and before anything of it is parsed: each bit of the file is either
part of the hash, of what is hashed, or of a frame that must be exactly as written. Files have a CRC-32, which finds
every single flipped bit and every burst of up to 32 (https://www.rfc-editor.org/rfc/rfc1952, section 8), at the speed
of memory. Both guard against damage, not against an attacker who can write into the folder. Therefore reading a
checkpoint runs no code, whatever the manifest says, and reads no file outside the checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from drivetrain.base.errors import InputError

MANIFEST_FILE = "manifest.json"
FORMAT = 1
# What the sync agent of the platform puts beside a file (the second, too: it marks a file that has been copied), and
# what our own atomic writes leave when they are killed.
LEFTOVERS = (".sagemaker-uploading", ".sagemaker-uploaded", ".partial")

_FRAME = re.compile(rb'\{"sha256":"([0-9a-f]{64})",\n"manifest":(.*)\}\n', re.DOTALL)
_LONGEST_NAME, _LONGEST_PART = 800, 240  # S3 takes 1,024 bytes a key, prefix included; file systems 255 a part


class DamagedError(ValueError):
    """A file of a checkpoint differs from what was written: which one, what was expected, what was found."""

    def __init__(self, message: str, *, file: str = "", expected: object = None, found: object = None) -> None:
        super().__init__(message)
        self.file = file
        self.expected = expected
        self.found = found


class MissingError(DamagedError):
    """A file that the manifest lists is not there: it may never have come, or not have come yet."""


@dataclass(frozen=True)
class FileEntry:
    """A file of a checkpoint; `name` is relative to its folder, `size` in bytes, `crc32` as zlib.crc32 gives it."""

    name: str
    size: int
    crc32: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The files of a checkpoint, and the values that its writer wants to know without opening it.

    Attributes:
        step: optimizer steps taken; orders the checkpoints.
        files: all files but the manifest itself.
        values: plain JSON: consumed, world_size, strategy, config, finished, metrics, saved_at, save_seconds, ...
    """

    step: int
    files: tuple[FileEntry, ...]
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    format: int = FORMAT

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def file(self, name: str) -> FileEntry:
        """The entry of a file.

        Raises:
            KeyError: the checkpoint has no such file.
        """
        for file in self.files:
            if file.name == name:
                return file
        raise KeyError(name)

    def to_bytes(self) -> bytes:
        """As it is stored.

        Raises:
            ValueError: a name that from_bytes would refuse, or a value that is no JSON (such as NaN).
        """
        _check(self)
        body = {
            "format": self.format,
            "step": self.step,
            "files": [{"name": file.name, "size": file.size, "crc32": file.crc32} for file in self.files],
            "values": self.values,
        }
        text = json.dumps(body, indent=1, allow_nan=False).encode()
        return b'{"sha256":"%s",\n"manifest":%s}\n' % (hashlib.sha256(text).hexdigest().encode(), text)

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Read a manifest from the output of to_bytes.

        Raises:
            DamagedError: it is not what any to_bytes gave.
            InputError: it is whole, but of a later format.
        """
        match = _FRAME.fullmatch(data)
        if not match:
            _refuse(f"{MANIFEST_FILE} is not a whole manifest", "a frame with its hash", data[:80])
        stated, found = match.group(1).decode(), hashlib.sha256(match.group(2)).hexdigest()
        if stated != found:
            _refuse(f"{MANIFEST_FILE} differs from its own hash", stated, found)
        try:
            body = json.loads(match.group(2), parse_constant=_no_number)
        except (ValueError, RecursionError) as problem:
            _refuse(f"{MANIFEST_FILE} is no JSON: {problem}", "JSON", str(problem))
        if not isinstance(body, dict) or type(body.get("format")) is not int:
            _refuse(f"{MANIFEST_FILE} states no format", FORMAT, str(body)[:80])
        if body["format"] > FORMAT:
            raise InputError(
                f"{MANIFEST_FILE} has format {body['format']}; this version reads formats up to {FORMAT}. Go on with "
                "the version that wrote it, or a later one."
            )
        try:
            files = tuple(FileEntry(entry["name"], entry["size"], entry["crc32"]) for entry in body["files"])
            manifest = cls(step=body["step"], files=files, values=body["values"], format=body["format"])
            _check(manifest)
        except (KeyError, TypeError, ValueError) as problem:
            _refuse(f"{MANIFEST_FILE} is not what a training writes: {problem!r}", "a manifest", repr(problem))
        return manifest


def check_name(name: object) -> str:
    """The name of a file of a checkpoint, or of a place: a relative path with plain parts.

    Raises:
        ValueError: it is invalid: absolute, with `..`, empty parts, backslashes, control characters, or too long.
    """
    if not isinstance(name, str):
        raise ValueError(f"{name!r} is no name")
    parts = name.split("/")
    good = (
        all(part not in ("", ".", "..") and len(part.encode(errors="replace")) <= _LONGEST_PART for part in parts)
        and name.isprintable()  # surrogates are not, so that it can be encoded
        and "\\" not in name
        and len(name.encode(errors="replace")) <= _LONGEST_NAME
    )
    if not good:
        raise ValueError(f"{name[:100]!r} is not a plain relative name")
    return name


def check_size(name: str, expected: int, found: int, *, file: str = "") -> None:
    """
    Args:
        file: the name in the manifest, where that is another one.

    Raises:
        DamagedError: a file is not of the expected size.
    """
    if found != expected:
        raise DamagedError(
            f"{name} has {found:,} bytes instead of {expected:,}", file=file or name, expected=expected, found=found
        )


def is_leftover(name: str) -> bool:
    """Return True if a file is a killed writer's leftover, by its name."""
    return name.endswith(LEFTOVERS)


def _check(manifest: Manifest) -> None:
    if not _is_count(manifest.step):
        raise ValueError(f"step is {manifest.step!r}")
    if not isinstance(manifest.values, dict):
        raise ValueError(f"values are {type(manifest.values).__name__}")
    for file in manifest.files:
        check_name(file.name)
        if file.name == MANIFEST_FILE or is_leftover(file.name):
            raise ValueError(f"{file.name!r} cannot be a file of a checkpoint")
        if not _is_count(file.size) or not _is_count(file.crc32) or file.crc32 >= 2**32:
            raise ValueError(f"{file.name!r} has size {file.size!r} and checksum {file.crc32!r}")
    _check_unique(file.name for file in manifest.files)


def _check_unique(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{name!r} is listed twice")
        seen.add(name)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _refuse(message: str, expected: object, found: object) -> NoReturn:
    raise DamagedError(message, file=MANIFEST_FILE, expected=expected, found=str(found))
