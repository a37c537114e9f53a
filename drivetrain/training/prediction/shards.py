"""The files of predictions: which are there, whole and of the same identity, and how one is written.

    part-00000.parquet          the rows of a shard
    _shards/part-00000.json     its size, SHA-256 and identity: without it, or where it does not fit, there is no shard
    manifest.json               all shards, written last; the folder can be read as prepared data

A shard is written under another name, made durable and renamed, and only then gets its record; killed at any point it
is either there or redone.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.base.file_locks import make_durable
from drivetrain.training.prediction.identity import Identity, difference

RECORDS = "_shards"
MANIFEST_FILE = "manifest.json"
FORMAT = 1
# What a full disk, an exceeded quota and a file-size limit say.
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OWN = re.compile(r"\.?part-\d{5,}\.(parquet|json)(\.partial)?|\.?manifest\.json(\.partial)?")


@dataclass(frozen=True)
class Record:
    """A shard that is there. `schema` is name -> Arrow's type, in the order of the columns."""

    file: str
    rows: int
    bytes: int
    sha256: str
    schema: Mapping[str, str]


def shard_file(number: int) -> str:
    return f"part-{number:05d}.parquet"


def whole_shard(folder: Path, number: int, identity: Identity) -> Record | None:
    """The shard's record, where the shard is there and is what the record says.

    Raises:
        InputError: it is of another identity.
    """
    path = _record_path(folder, number)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content.pop("identity")
        record = Record(**content)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # torn: then so may be the shard
    if isinstance(found, dict) and (wrong := difference(found, identity)):
        raise other_identity(folder, wrong)
    return record if record.file == shard_file(number) and _sha256(folder / record.file) == record.sha256 else None


def other_identity(folder: Path, wrong: str) -> InputError:
    return InputError(
        f"{folder} holds predictions of something else: {wrong}. Give another folder, or on_change=fresh to replace "
        "them."
    )


def write_shard(
    folder: Path, number: int, content: bytes | memoryview, rows: int, schema: Mapping[str, str], identity: Identity
) -> Record:
    """Commit a shard; called once a shard, by one process."""
    name = shard_file(number)
    record = Record(name, rows, len(content), hashlib.sha256(content).hexdigest(), schema)
    _record_path(folder, number).unlink(missing_ok=True)  # what it vouched for is replaced
    _write(folder / name, content)
    _write(_record_path(folder, number), _json({**asdict(record), "identity": identity}))
    return record


def copy_shard(source: Path, folder: Path, number: int, record: Record, identity: Identity) -> Record:
    """Take a shard over from another folder.

    Raises:
        InputError: it was changed since it was looked at.
    """
    content = (source / record.file).read_bytes()
    if hashlib.sha256(content).hexdigest() != record.sha256:
        raise InputError(f"{source / record.file} was changed while it was read. Let nobody else write there.")
    return write_shard(folder, number, content, record.rows, record.schema, identity)


def refuse_strange(folder: Path) -> None:
    """
    Raises:
        InputError: files of our names that were not written by us, which would be replaced.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file. Give a folder.")
    if not folder.is_dir() or (folder / RECORDS).is_dir():
        return
    strange = sorted(path.name for path in folder.iterdir() if _OWN.fullmatch(path.name))
    if strange:
        raise InputError(f"{folder} holds {strange[0]}, which are no predictions; nothing there is replaced.")


def clear(folder: Path) -> None:
    """Remove all that was written here; other files are left alone."""
    for place in (folder, folder / RECORDS):
        for path in place.iterdir() if place.is_dir() else ():
            if _OWN.fullmatch(path.name):
                path.unlink(missing_ok=True)  # (another host may be at it)


def first_identity(folder: Path) -> Identity | None:
    """That of any shard in the folder; None without one."""
    for path in sorted((folder / RECORDS).glob("*.json")) if (folder / RECORDS).is_dir() else ():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))["identity"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(found, dict):
            return found
    return None


def write_manifest(folder: Path, records: list[Record], identity: Identity, task: Mapping[str, Any]) -> None:
    """Say that all shards are there. What says so already is left as it is.

    Args:
        task: what the answers are of (`described_task`).
    """
    described: dict[str, Any] = {
        "format": FORMAT,
        "rows": sum(record.rows for record in records),
        "bytes": sum(record.bytes for record in records),
        "key": "key" if identity["key"] else "row",
        "label": None,
        "schema": [{"name": name, "type": kind} for name, kind in records[0].schema.items()],
        "shards": [
            {"file": record.file, "rows": record.rows, "bytes": record.bytes, "sha256": record.sha256}
            for record in records
        ],
    }
    # The name of prepared data: drivetrain.data.manifest says how it is made.
    text = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    named = {"content_hash": hashlib.sha256(text.encode()).hexdigest(), "statistics": {}}
    named |= {"predictions": identity, "task": task}
    content = _json({**described, **named})
    path = folder / MANIFEST_FILE
    if not path.is_file() or path.read_bytes() != content:
        _write(path, content)


def remove_manifest(folder: Path) -> None:
    """Before a shard that it lists is written anew."""
    (folder / MANIFEST_FILE).unlink(missing_ok=True)


def _record_path(folder: Path, number: int) -> Path:
    return folder / RECORDS / Path(shard_file(number)).with_suffix(".json")


def _json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""


def _write(path: Path, content: bytes | memoryview) -> None:
    """Durable before it has its name, and its name durable before this returns.

    Raises:
        InputError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
        make_durable(path.parent)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror or error}. "
            + ("Free some space, or give another folder." if error.errno in _NO_SPACE else "Give another folder.")
        ) from None
