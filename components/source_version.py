"""The version of data that lie elsewhere: of files in S3, Iceberg, Delta, a database.

    python -m drivetrain.components.source_version --source delta:lake/orders

A step that reads the table takes the version as a parameter, so that the cache knows it: the same version is a hit, a
new one is read. Where a schedule or an event starts the pipeline, such steps are there by themselves
(drivetrain/triggers/looking.py).

    found = step(source_version, source="delta:lake/orders")
    table = step(read_source, source="delta:lake/orders", version=found.version)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from drivetrain.base.errors import InputError
from drivetrain.steps.declaration import component

OBJECT_STORE = "DRIVETRAIN_OBJECT_STORE"
LOCAL_DATA = "DRIVETRAIN_LOCAL_DATA"
"""Names what lies elsewhere on this machine, a JSON object: bucket/key -> path."""


class Found(TypedDict):
    """`version` names the table's rows: a version or snapshot number, a hash of entity tags, a watermark."""

    version: str


@component(cached=False, needs=("numpy", "pyarrow", "boto3"))
def source_version(source: str, query: str = "", watermark: str = "", of_input: bool = False) -> Found:
    """Find out which version of a table is the newest.

    Args:
        source: where the table is, as for read_source.
        query: what a database is asked.
        watermark: a column of the query whose values grow with each new row; only with one has a query a version.
        of_input: the source is the URI of a step's input, s3://bucket/prefix: all that it brings counts, tables or not.

    Raises:
        InputError: there is no such table, or it has no version.
    """
    if of_input:
        version = prefix_version(source)
        print(f"version {version}", flush=True)
        return {"version": version}
    from drivetrain.data.reading import TableOptions
    from drivetrain.data.sources import Options, open_source

    table = TableOptions(key=None, label=None)
    given = Options(query=query, watermark=watermark, table=table, scratch=Path("unused"))
    version = str(open_source(source, given).identity["version"])
    if not version:
        raise InputError(
            f"{source}: a query without a watermark has no version. Name a column that grows with each new row "
            "(watermark=id), or read it without this step, each time anew."
        )
    print(f"version {version}", flush=True)
    return {"version": version}


def prefix_version(uri: str) -> str:
    """The version of all objects whose keys begin as the URI's does, which are what an input brings: one text, which
    differs when one of them does.

    Of S3 it is a hash of the names, sizes and entity tags of a listing. On a machine whose folders stand for S3
    ($DRIVETRAIN_OBJECT_STORE) the bytes are hashed, so that a file which is only touched or copied anew is no news.

    Raises:
        InputError: it is no s3:// URI, there is nothing, or it cannot be listed.
    """
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    if not uri.startswith("s3://") or not bucket or ".." in key.split("/"):
        raise InputError(f"{uri!r} cannot be looked at. Allowed: s3://bucket/prefix.")
    store = os.environ.get(OBJECT_STORE)
    listed = sorted(_here(Path(store), bucket, key) if store else _in_s3(bucket, key))
    if not listed:
        raise InputError(f"there is nothing at {uri}. Is it spelled right, and has the data arrived?")
    return hashlib.sha256(json.dumps(listed).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _in_s3(bucket: str, prefix: str) -> Iterator[tuple[str, int, str]]:
    from drivetrain.aws.s3 import Client

    for entry in Client(bucket, purpose="data", permissions=("s3:ListBucket",)).listed(prefix):
        if not entry["Key"].endswith("/"):  # how consoles make a folder, which brings nothing
            yield entry["Key"], entry["Size"], entry["ETag"]


def _here(store: Path, bucket: str, prefix: str) -> Iterator[tuple[str, int, str]]:
    """The files of the folders that stand for S3, or of what was given for the URI."""
    asked = "/".join([bucket, *filter(None, prefix.split("/"))])
    elsewhere: dict[str, str] = json.loads(os.environ.get(LOCAL_DATA, "{}"))
    for given in sorted(elsewhere, key=len, reverse=True):
        if asked == given or asked.startswith(f"{given}/"):
            place = Path(elsewhere[given]) / asked[len(given) :].lstrip("/")
            yield from _files(place, place)
            return
    place = store / asked
    if prefix.endswith("/") or not prefix:
        yield from _files(place, place)
        return
    for beside in sorted(place.parent.glob("*")) if place.parent.is_dir() else ():
        if beside.name.startswith(place.name):
            yield from _files(beside, place.parent)


def _files(place: Path, above: Path) -> Iterator[tuple[str, int, str]]:
    found = [place] if place.is_file() else sorted(place.rglob("*"))
    for path in found:
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            yield path.relative_to(above).as_posix(), path.stat().st_size, digest


if __name__ == "__main__":
    source_version.main()
