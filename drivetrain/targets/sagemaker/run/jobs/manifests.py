"""Inputs of the type ManifestFile: a JSON list of objects, `[{"prefix": "s3://bucket/some/"}, "relative/path", ...]`.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3DataSource.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from drivetrain.base import json_text
from drivetrain.base.errors import UserError
from drivetrain.run_store.objects import ObjectStore, StoredObject, missing, stored


def uris(uri: str, store: ObjectStore) -> dict[str, str]:
    """Read the manifest at `uri`: path below its prefix -> the object's URI.

    Raises:
        UserError: the manifest is missing or invalid.
    """
    path = store.path(uri)
    if not path.is_file():
        raise UserError(missing("the manifest", uri, store))
    content: Any = json_text.parse(path.read_bytes(), f"manifest {uri}")
    entries = cast("list[Any]", content) if isinstance(content, list) else list[Any]()
    first = entries[0] if entries else None
    prefix: Any = cast("dict[str, Any]", first).get("prefix") if isinstance(first, dict) else None
    names = entries[1:]
    if not isinstance(prefix, str) or not names or not all(isinstance(name, str) for name in names):
        raise UserError(
            f'{uri} is not a manifest. Allowed: a list that begins with {{"prefix": "s3://bucket/some/"}}, and then '
            "keys below it."
        )
    # A name is never an absolute path.
    return {"/".join(filter(None, name.split("/"))): prefix + name for name in cast("list[str]", names)}


def listed(uri: str, store: ObjectStore) -> list[StoredObject]:
    """The objects that the manifest at `uri` lists, each named by its path below the prefix.

    Raises:
        UserError: the manifest is missing or invalid, or lists a missing object.
    """
    found: list[StoredObject] = []
    for name, whole in uris(uri, store).items():
        path = store.path(whole)
        if not path.is_file():
            raise UserError(missing(f"manifest {uri}", whole, store))
        found.append(stored(name, whole, path))
    return found


def listed_or_none(objects: Sequence[StoredObject], store: ObjectStore) -> list[StoredObject] | None:
    """The objects behind a possible manifest; None if it is no manifest, or an object is gone."""
    try:
        return listed(objects[0].uri, store) if len(objects) == 1 else None
    except UserError:
        return None
