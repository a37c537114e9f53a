"""Files in S3, or in what speaks its protocol: `s3://bucket/prefix`, or one object.

The objects are listed once: names, sizes and entity tags are the version. Each is fetched on the condition that it
still has its tag, in ranges, so that a broken connection costs a range and a killed run goes on where it was. The files
lie in the scratch folder until the rows are read: the disk needs room for them, memory does not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from drivetrain.aws.s3 import Client, ServiceError
from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Batch, Schema
from drivetrain.data.increments import NotUsableError
from drivetrain.data.reading import Table, continued_table, open_table
from drivetrain.data.source import SUPPORTED, find_sources, is_passed_over
from drivetrain.data.sources import Opened, Options, no_such_version

SUMMARY = "files in S3, or in what speaks its protocol"
EXAMPLE = "s3://bucket/prefix"

_RANGE = 16 << 20
_FILES_AT_ONCE = 4
_CONDITION_FAILED = 412


@dataclass(frozen=True)
class _Object:
    name: str
    key: str
    size: int
    tag: str


class _Files(Opened):
    """The listed objects, fetched when their rows are first asked for."""

    def __init__(self, client: Client, objects: Sequence[_Object], options: Options) -> None:
        self._client = client
        self._objects = objects
        self._options = options
        listed = json.dumps([[each.name, each.size, each.tag] for each in objects])
        self._version = hashlib.sha256(listed.encode()).hexdigest()[:32]
        self._folder = options.scratch / self._version
        self._found: Table | None = None

    @property
    def identity(self) -> Mapping[str, Any]:
        files = [{"name": each.name, "bytes": each.size, "tag": each.tag} for each in self._objects]
        return {"version": self._version, "files": files}

    @property
    def schema(self) -> Schema:
        return self._table.schema

    def batches(self) -> Iterator[Batch]:
        return (batch for _, _, batch in self._table.batches())

    def added_since(self, earlier: Mapping[str, Any], schema: Schema) -> _Files:
        known = {entry["name"]: (entry["bytes"], entry["tag"]) for entry in earlier["files"]}
        given = {each.name: (each.size, each.tag) for each in self._objects}
        for name, state in known.items():
            if given.get(name) != state:
                raise NotUsableError(f"{name} " + ("has changed since" if name in given else "is not there any more"))
        added = _Files(self._client, [each for each in self._objects if each.name not in known], self._options)
        added._fetch()
        sources = find_sources(added._folder) if added._objects else ()
        added._found = continued_table(added._folder, self._options.table, sources, schema, self._options.empty)
        return added

    @property
    def _table(self) -> Table:
        if self._found is None:
            self._fetch()
            self._found = open_table(self._folder, self._options.table, whole=self._options.whole)
        return self._found

    def _fetch(self) -> None:
        with ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="s3-files") as threads:
            for _ in threads.map(self._fetch_file, self._objects):
                """Each raises what its thread did."""

    def _fetch_file(self, wanted: _Object) -> None:
        path = self._folder / wanted.name
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        with partial.open("ab") as file:
            while (start := file.tell()) < wanted.size:
                file.write(self._range(wanted, start, min(start + _RANGE, wanted.size)))
        partial.rename(path)

    def _range(self, wanted: _Object, start: int, end: int) -> memoryview:
        try:
            buffer = memoryview(bytearray(end - start))
            return self._client.fetch(wanted.key, buffer, Range=f"bytes={start}-{end - 1}", IfMatch=wanted.tag)[0]
        except ServiceError as error:
            if error.status not in (_CONDITION_FAILED, 404):
                raise
            raise InputError(
                f"s3://{self._client.bucket}/{wanted.key} was replaced or removed while the data was read. Run again."
            ) from error


def open_source(place: str, options: Options) -> _Files:
    bucket, _, prefix = place.removeprefix("//").partition("/")
    if not place.startswith("//") or not bucket:
        raise InputError(f"source is 's3:{place}', which names no bucket. Example: {EXAMPLE}.")
    client = Client(bucket, purpose="data", permissions=("s3:ListBucket", "s3:GetObject"))
    objects = _listed(client, prefix)
    if not objects:
        raise InputError(f"s3:{place} holds no data file. Allowed: {SUPPORTED}.")
    found = _Files(client, objects, options)
    if options.version not in ("", found.identity["version"]):
        raise no_such_version(options.version, found.identity["version"], f"s3:{place}")
    return found


def _listed(client: Client, prefix: str) -> list[_Object]:
    """The object of this key, or those below it as a folder, sorted by name."""
    folder = prefix if prefix.endswith("/") or not prefix else f"{prefix}/"
    found: list[_Object] = []
    for entry in client.listed(prefix):
        key: str = entry["Key"]
        if key == prefix and not key.endswith("/"):
            return [_Object(key.rpartition("/")[2], key, entry["Size"], entry["ETag"])]
        name = key.removeprefix(folder)
        if key.startswith(folder) and name and not name.endswith("/") and not is_passed_over(name):
            found.append(_Object(_safe(name), key, entry["Size"], entry["ETag"]))
    return sorted(found, key=lambda each: each.name)


def _safe(name: str) -> str:
    if name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
        raise InputError(f"the object {name!r} has a name that no file can have. Rename it, or read a folder below.")
    return name
