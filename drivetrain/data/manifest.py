"""The manifest of a prepared data set: what a folder of Parquet shards holds, and how to tell that it is whole.

    train/manifest.json                      says which version counts; replaced in one move, after all else
    train/3f6c0a41b2d7/part-00000.parquet    the shards of a version, named by the beginning of its content hash, or
                                             by a hash of that and of `fitted`, where there is any
    train/3f6c0a41b2d7/manifest.json         the same of the version itself, with plain names

A folder without manifest.json is not finished. The file is UTF-8 JSON:

    {
      "format": 2,
      "rows": 1437,                                    sum over the shards
      "bytes": 101376,                                 sum over the shards
      "key": "id",                                     the column that names a row, or null
      "label": "label",                                or null
      "schema": [{"name": "id", "type": "int64"}, {"name": "p0", "type": "float"}, ...],
      "shards": [{"file": "3f6c0a41b2d7/part-00000.parquet", "rows": 1437, "bytes": 101376, "sha256": "<64 hex>"}, ...],
      "engine": "pyarrow 26.0.1",                      what wrote it
      "lineage": {...},                                where it comes from; see increments.py
      "fitted": {...},                                 transforms fitted on train; see fitted.py (not without any)
      "leakage": {...},                                what train has, too; see leakage.py (where looked for)
      "keys": {...},                                   hashes of keys; see key_sample.py (where leakage is looked for)
      "content_hash": "<64 hex digits>",
      "statistics": {"id": {...}, "label": {...}, ...}    last: most of a file, which some readers leave out
    }

schema
    The columns in their order; `type` is Arrow's own spelling, `str(field.type)`: int64, float (32 bits), double,
    bool, string, date32[day], timestamp[us], list<item: float>, ...
shards
    In the order of the rows; an empty split has none. A file is named relative to the manifest, in a folder at most.
statistics
    Per column, over the rows of this folder. Every column has `nulls`. Integers, floats, decimals and bools (as 0 and
    1) have `min`, `max`, `mean`, `std` (population) and `sum`, null where there is no value, or none that a double
    holds; floats also `not_finite`, the count of NaN and infinities, which the others leave out. They have
    `quantiles` ({"0.01": ..., "0.5": ..., ...}, within 0.5 % of the rows, exact up to 2,048 rows) and `histogram`
    ({"edges": [...], "rows": [...]}, bins of one width from the least to the greatest value, its rows from the same
    sketch). Dates and time stamps have `min` and `max` as ISO 8601 text, and `sentinels` where there are some: how
    many rows have a day that stands for no date ({"9999-12-31": 20}; also 1900-01-01). All of these and text, but not
    the key, have `distinct`, the number of different values: exact up to 2,048, else within about 5 %. A label that
    names classes (integer, bool or text) has an exact `distinct`, and `classes`: [{"value": 0, "rows": 143}, ...] in
    the order of the values. An integer, bool or text column other than the key with at most 256 values, none a text
    of more than 256 characters, has `values` of the same form (missing ones left out): what an evaluation can be
    sliced by. All columns list at most 10,000 values; where they have more, those with the fewest come first. Readers
    must allow for further entries.
content_hash
    SHA-256 of the data's identity: `format` (1), `rows`, `bytes`, `key`, `label`, `schema` and `shards`, with plain
    file names, as `json.dumps(..., sort_keys=True, separators=(",", ":"), ensure_ascii=False)` in UTF-8. The shards'
    checksums are in it, so two folders with the same hash hold the same bytes, and a folder can be named by it. It is
    calculated as in format 1: the same shards keep their name.

Format 1 has no `engine`, no `lineage`, fewer statistics, and its shards beside the manifest. It is still read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from drivetrain.base.errors import InputError
from drivetrain.base.json_text import text_of

FORMAT = 2
FORMATS = (1, 2)
# The identity is that of format 1, so that a data set keeps its name.
_IDENTITY_FORMAT = 1
MANIFEST_FILE = "manifest.json"
# Path components that no file system and no object store reads as anything else: the file's, and one folder's.
PLAIN_NAME = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# The beginnings of lines of the file; no other text in it has a line of its own.
_STATISTICS, _CONTENT_HASH = b'\n "statistics": ', b'\n "content_hash": '
_PIECE = 1 << 14

T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """A column and its Arrow type, as Arrow spells it."""

    name: str
    type: str


@dataclass(frozen=True)
class Shard:
    """One Parquet file: its path below the manifest's folder, rows, size in bytes and SHA-256 in hex."""

    file: str
    rows: int
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's name, without its folder."""
        return self.file.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of one prepared folder; see the module's docstring for the file."""

    key: str | None
    label: str | None
    schema: tuple[Column, ...]
    shards: tuple[Shard, ...]
    statistics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    engine: str = ""
    lineage: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fitted: Mapping[str, Any] = field(default_factory=dict[str, Any])
    leakage: Mapping[str, Any] = field(default_factory=dict[str, Any])
    keys: Mapping[str, Any] = field(default_factory=dict[str, Any])

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

    @property
    def version(self) -> str:
        """The folder's name for this version: the beginning of the content hash, where nothing is fitted. The same rows
        with other transforms are another version."""
        if not self.fitted:
            return self.content_hash[:12]
        # A folder that was named by an earlier release keeps its name.
        if self.shards and (folder := self.shards[0].file.rpartition("/")[0]):
            return folder
        fitted = json.dumps(self.fitted, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(f"{self.content_hash} {fitted}".encode()).hexdigest()[:12]

    def in_version(self) -> Manifest:
        """The same, to be read from the folder above the version's."""
        shards = (replace(shard, file=f"{self.version}/{shard.name}") for shard in self.shards)
        return replace(self, shards=tuple(shards))

    def write(self, path: Path) -> None:
        """Write the manifest into a file, durably. The shards must be there already."""
        content: dict[str, Any] = {
            **self._identity(),
            "format": FORMAT,
            "shards": [asdict(shard) for shard in self.shards],
            "engine": self.engine,
            "lineage": self.lineage,
            **({"fitted": self.fitted} if self.fitted else {}),
            **({"leakage": self.leakage} if self.leakage else {}),
            **({"keys": self.keys} if self.keys else {}),
            "content_hash": self.content_hash,
            "statistics": self.statistics,
        }
        text = text_of(content)  # a third of the time of json.dumps, which counts where there are many sources
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def read(cls, folder: Path, *, checksums: bool = True, statistics: bool = True) -> Manifest:
        """Read a folder's manifest and check the shards against it.

        Args:
            folder: the prepared folder.
            checksums: read every shard and compare its SHA-256; sizes are compared in any case.
            statistics: read them, too; without them there are none.

        Raises:
            InputError: no manifest, one that is not of this format, or a shard that is missing, of another size or of
                another content (named).
        """
        path = folder / MANIFEST_FILE
        try:
            content: object = json.loads(path.read_bytes() if statistics else _without_statistics(path))
        except FileNotFoundError:
            raise InputError(
                f"{folder} has no {MANIFEST_FILE}: it was not written by prepare_data, or not to its end. "
                "Run prepare_data again."
            ) from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON ({error}). Run prepare_data again.") from None
        manifest = _parsed(path, content)
        for shard in manifest.shards:
            check_shard(folder / shard.file, shard, checksums=checksums)
        return manifest

    def _identity(self) -> dict[str, Any]:
        return {
            "format": _IDENTITY_FORMAT,
            "rows": self.rows,
            "bytes": self.bytes,
            "key": self.key,
            "label": self.label,
            "schema": [{"name": column.name, "type": column.type} for column in self.schema],
            "shards": [{**asdict(shard), "file": shard.name} for shard in self.shards],
        }


def check_shard(path: Path, shard: Shard, *, checksums: bool = True, advice: str = "Run prepare_data again.") -> None:
    """
    Args:
        path: the file.
        shard: what the manifest says of it.
        checksums: read the file and compare its SHA-256, too.
        advice: ends a message.

    Raises:
        InputError: the file is missing, of another size, or (with `checksums`) of another content than `shard` says.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise InputError(f"shard {path} is missing, but {MANIFEST_FILE} lists it. {advice}") from None
    if size != shard.bytes:
        raise InputError(f"shard {path} has {size:,} bytes; {MANIFEST_FILE} says {shard.bytes:,}. {advice}")
    if not checksums:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != shard.sha256:
        raise InputError(
            f"shard {path} was altered: its SHA-256 is {found[:12]}..., {MANIFEST_FILE} says "
            f"{shard.sha256[:12]}.... {advice}"
        )


def _without_statistics(path: Path) -> bytes:
    """The text of a manifest up to its statistics; all of it where an earlier release wrote them in the middle."""
    with path.open("rb") as file:
        text = b""
        while piece := file.read(_PIECE):
            text += piece
            before, statistics, _ = text.partition(_STATISTICS)
            if statistics and _CONTENT_HASH in before:
                return before + _STATISTICS + b"{}}"
            if statistics:
                break
        return text + file.read()


def _parsed(path: Path, content: object) -> Manifest:
    """The manifest in a file's JSON, or an InputError that names the entry which is wrong."""
    top = _object(path, "the file", content)
    version = top.get("format")
    if isinstance(version, bool) or version not in FORMATS:
        raise InputError(f"{path} has format {version!r}; this version reads 1 and 2. Run prepare_data again.")
    shards: list[Shard] = []
    for index, entry in enumerate(_entries(path, top, "shards")):
        item = _object(path, f"shards[{index}]", entry)
        shard = Shard(*(_entry(path, item, name, kind) for name, kind in _SHARD_ENTRIES))
        if not PLAIN_NAME.fullmatch(shard.file):
            raise InputError(
                f"{path}: shards[{index}].file is {shard.file!r}. Allowed: a file name, in one folder at most."
            )
        if shard.rows < 0 or shard.bytes < 0 or not _SHA256.fullmatch(shard.sha256):
            raise InputError(f"{path}: shards[{index}] has a negative count or a checksum that is no SHA-256.")
        shards.append(shard)
    columns = [_object(path, f"schema[{i}]", entry) for i, entry in enumerate(_entries(path, top, "schema"))]
    manifest = Manifest(
        key=None if top.get("key") is None else _entry(path, top, "key", str),
        label=None if top.get("label") is None else _entry(path, top, "label", str),
        schema=tuple(Column(_entry(path, item, "name", str), _entry(path, item, "type", str)) for item in columns),
        shards=tuple(shards),
        statistics=cast("dict[str, Mapping[str, Any]]", _entry(path, top, "statistics", dict)),
        engine="" if version == 1 else _entry(path, top, "engine", str),
        lineage={} if version == 1 else cast("dict[str, Any]", _entry(path, top, "lineage", dict)),
        fitted=cast("dict[str, Any]", _entry(path, top, "fitted", dict)) if "fitted" in top else {},
        leakage=cast("dict[str, Any]", _entry(path, top, "leakage", dict)) if "leakage" in top else {},
        keys=cast("dict[str, Any]", _entry(path, top, "keys", dict)) if "keys" in top else {},
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
