"""The manifest of a prepared data set: what a folder of Parquet shards holds, and how to tell that it is whole.

A prepared folder is `part-00000.parquet`, `part-00001.parquet`, ... and `manifest.json`, which is written last: a
folder without it is not finished. The file is UTF-8 JSON:

    {
      "format": 1,
      "rows": 1437,                                    sum over the shards
      "bytes": 101376,                                 sum over the shards
      "key": "id",                                     the column that names a row
      "label": "label",                                or null
      "schema": [{"name": "id", "type": "int64"}, {"name": "p0", "type": "float"}, ...],
      "shards": [{"file": "part-00000.parquet", "rows": 1437, "bytes": 101376, "sha256": "<64 hex digits>"}, ...],
      "statistics": {"id": {...}, "label": {...}, ...},
      "content_hash": "<64 hex digits>"
    }

schema
    The columns in their order; `type` is Arrow's own spelling, `str(field.type)`: int64, float (32 bits), double,
    bool, string, date32[day], timestamp[us], list<item: float>, ...
shards
    In the order of the rows; an empty split has none. A file name has no folder in it.
statistics
    Per column, over the rows of this folder. Every column has `nulls`. Integers, floats, decimals and bools (as 0 and
    1) have `min`, `max`, `mean` and `std` (population), null where there is no value, or none that a double holds;
    floats also `not_finite`, the count of NaN and infinities, which the other four leave out. Dates and time stamps
    have `min` and `max` as ISO 8601 text. A label that names classes (integer, bool or text) has `distinct`, and
    `classes`: [{"value": 0, "rows": 143}, ...] in the order of the values. An integer, bool or text column other than
    the key with at most 256 values, none a text of more than 256 characters, has `values` of the same form (missing
    ones left out): what an evaluation can be sliced by. All columns list at most 10,000 values; where they have more,
    those with the fewest come first. Readers must allow for further entries.
content_hash
    SHA-256 of the data's identity: the manifest without `content_hash` and `statistics`, as
    `json.dumps(..., sort_keys=True, separators=(",", ":"), ensure_ascii=False)` in UTF-8. The shards' checksums are in
    it, so two folders with the same hash hold the same bytes, and a folder can be named by it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from drivetrain.base.errors import InputError

FORMAT = 1
MANIFEST_FILE = "manifest.json"
# One path component that no file system and no object store reads as anything else.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_READ_BYTES = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """A column and its Arrow type, as Arrow spells it."""

    name: str
    type: str


@dataclass(frozen=True)
class Shard:
    """One Parquet file: its name in the folder, rows, size in bytes and SHA-256 in hex."""

    file: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of one prepared folder; see the module's docstring for the file."""

    key: str
    label: str | None
    schema: tuple[Column, ...]
    shards: tuple[Shard, ...]
    statistics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)

    @property
    def content_hash(self) -> str:
        """The data's name: SHA-256 in hex over what identifies it."""
        text = json.dumps(self._identity(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Write `manifest.json`, all of it or nothing. The shards must be there already."""
        content = {**self._identity(), "statistics": self.statistics, "content_hash": self.content_hash}
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        temporary = folder / f".{MANIFEST_FILE}.partial"
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / MANIFEST_FILE)

    @classmethod
    def read(cls, folder: Path, *, checksums: bool = True) -> Manifest:
        """Read a folder's manifest and check the shards against it.

        Args:
            folder: the prepared folder.
            checksums: read every shard and compare its SHA-256; sizes are compared in any case.

        Raises:
            InputError: no manifest, one that is not of this format, or a shard that is missing, of another size or of
                another content (named).
        """
        path = folder / MANIFEST_FILE
        try:
            content: object = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise InputError(
                f"{folder} has no {MANIFEST_FILE}: it was not written by prepare_data, or not to its end. "
                "Run prepare_data again."
            ) from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON ({error}). Run prepare_data again.") from None
        manifest = _parsed(path, content)
        for shard in manifest.shards:
            _check_shard(folder / shard.file, shard, checksums)
        return manifest

    def _identity(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "rows": self.rows,
            "bytes": self.bytes,
            "key": self.key,
            "label": self.label,
            "schema": [{"name": column.name, "type": column.type} for column in self.schema],
            "shards": [
                {"file": shard.file, "rows": shard.rows, "bytes": shard.bytes, "sha256": shard.sha256}
                for shard in self.shards
            ],
        }


def _check_shard(path: Path, shard: Shard, checksums: bool) -> None:
    advice = "Run prepare_data again."
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise InputError(f"shard {path} is missing, but {MANIFEST_FILE} lists it. {advice}") from None
    if size != shard.bytes:
        raise InputError(f"shard {path} has {size:,} bytes; {MANIFEST_FILE} says {shard.bytes:,}. {advice}")
    if not checksums:
        return
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    if digest.hexdigest() != shard.sha256:
        raise InputError(
            f"shard {path} was altered: its SHA-256 is {digest.hexdigest()[:12]}..., {MANIFEST_FILE} says "
            f"{shard.sha256[:12]}.... {advice}"
        )


def _parsed(path: Path, content: object) -> Manifest:
    """The manifest in a file's JSON, or an InputError that names the entry which is wrong."""
    top = _object(path, "the file", content)
    version = top.get("format")
    if version != FORMAT:
        raise InputError(f"{path} has format {version!r}; this version reads {FORMAT}. Run prepare_data again.")
    shards: list[Shard] = []
    for index, entry in enumerate(_entries(path, top, "shards")):
        item = _object(path, f"shards[{index}]", entry)
        shard = Shard(*(_entry(path, item, name, kind) for name, kind in _SHARD_ENTRIES))
        if not _PLAIN_NAME.fullmatch(shard.file):
            raise InputError(f"{path}: shards[{index}].file is {shard.file!r}. Allowed: a file name without a folder.")
        if shard.rows < 0 or shard.bytes < 0 or not _SHA256.fullmatch(shard.sha256):
            raise InputError(f"{path}: shards[{index}] has a negative count or a checksum that is no SHA-256.")
        shards.append(shard)
    columns = [_object(path, f"schema[{i}]", entry) for i, entry in enumerate(_entries(path, top, "schema"))]
    label = top.get("label")
    manifest = Manifest(
        key=_entry(path, top, "key", str),
        label=None if label is None else _entry(path, top, "label", str),
        schema=tuple(Column(_entry(path, item, "name", str), _entry(path, item, "type", str)) for item in columns),
        shards=tuple(shards),
        statistics=cast("dict[str, Mapping[str, Any]]", _entry(path, top, "statistics", dict)),
    )
    for name, computed in (
        ("rows", manifest.rows),
        ("bytes", manifest.bytes),
        ("content_hash", manifest.content_hash),
    ):
        if top.get(name) != computed:
            raise InputError(f"{path} was altered: {name} is {top.get(name)!r}, its other entries say {computed!r}.")
    return manifest


_SHARD_ENTRIES: tuple[tuple[str, type[Any]], ...] = (("file", str), ("rows", int), ("bytes", int), ("sha256", str))


def _object(path: Path, where: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InputError(f"{path}: {where} is {_shown(value)}; it must be a JSON object.")
    return cast("dict[str, object]", value)


def _entry(path: Path, owner: dict[str, object], name: str, kind: type[T]) -> T:
    value = owner.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        found = "missing" if name not in owner else _shown(value)
        raise InputError(f"{path}: {name} is {found}; it must be of type {kind.__name__}.")
    return value


def _entries(path: Path, owner: dict[str, object], name: str) -> list[object]:
    return cast("list[object]", _entry(path, owner, name, list))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
