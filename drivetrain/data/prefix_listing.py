"""A version of the objects behind the URI of a step's input: one text, which differs when one of them does.

Of S3 it is a hash of the names, sizes and entity tags of a listing. On a machine whose folders stand for S3
($DRIVETRAIN_OBJECT_STORE) the bytes are hashed, so that a file which is only touched or copied anew is no news.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from drivetrain.base.errors import InputError

OBJECT_STORE = "DRIVETRAIN_OBJECT_STORE"
LOCAL_DATA = "DRIVETRAIN_LOCAL_DATA"
"""Names what lies elsewhere on this machine, a JSON object: bucket/key -> path."""


def prefix_version(uri: str) -> str:
    """The version of all objects whose keys begin as the URI's does, which are what an input brings.

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
