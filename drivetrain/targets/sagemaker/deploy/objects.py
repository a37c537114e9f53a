"""Objects of the bucket: written once under the hash of their content, listed, read, taken away."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from drivetrain.assets import uploads
from drivetrain.assets.assets import Asset
from drivetrain.aws.s3 import split
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.refusals import ConditionError, ConflictError, ServiceError

DELETED_AT_ONCE = 1_000
LOOKS_AGAIN = (0.2, 1.0, 3.0)
"""Seconds before writing once more where another write of the same object was on its way."""


def get_text(account: Account, uri: str) -> str | None:
    """The text of an object; None where it does not exist. Bytes that are no text are replaced: nothing of ours is
    such, and what has a hash is not that of its name then.

    Raises:
        ServiceError: AWS refuses, or there is no such bucket.
    """
    bucket, key = split(uri)
    said = account.find("s3", "get_object", about=uri, Bucket=bucket, Key=key)
    return None if said is None else account.body(said["Body"], about=uri).decode(errors="replace")


def put(account: Account, uri: str, content: bytes) -> None:
    """Write an object, replacing an existing one.

    Raises:
        ServiceError: AWS refuses.
    """
    bucket, key = split(uri)
    account.call("s3", "put_object", about=uri, Bucket=bucket, Key=key, Body=content)


def put_once(account: Account, uri: str, content: bytes | Path, sha256: str) -> bool:
    """Write an object that is named by its content, unless it is there; gives whether it was written.

    The service itself compares the bytes with `sha256`, so that nothing torn can lie under the name.

    Raises:
        UserError: it is larger than one request takes, or AWS refuses.
    """
    uploads.refuse_too_large(content)
    for seconds in LOOKS_AGAIN:
        try:
            return _put_once(account, uri, content, sha256)
        except ConflictError:
            time.sleep(seconds)
    return _put_once(account, uri, content, sha256)


def _put_once(account: Account, uri: str, content: bytes | Path, sha256: str) -> bool:
    bucket, key = split(uri)
    checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
    body = content if isinstance(content, bytes) else content.open("rb")
    try:
        account.call(
            "s3",
            "put_object",
            about=uri,
            Bucket=bucket,
            Key=key,
            Body=body,
            IfNoneMatch="*",
            ChecksumSHA256=checksum,
        )
    except ConditionError:
        return False
    finally:
        if not isinstance(body, bytes):
            body.close()
    return True


def missing(account: Account, assets: Sequence[Asset]) -> tuple[Asset, ...]:
    """Those that are not in the bucket, or have another size there: one request a folder of a thousand objects."""
    return uploads.missing(assets, partial(listed, account))


def listed(account: Account, folder: str) -> dict[str, int]:
    """URI -> size in bytes of each object below a folder's URI."""
    bucket, prefix = split(folder)
    found = account.pages("s3", "list_objects_v2", "Contents", about=folder, Bucket=bucket, Prefix=prefix)
    return {f"s3://{bucket}/{item['Key']}": int(item["Size"]) for item in found}


def delete(account: Account, uris: Iterable[str]) -> None:
    """Take objects away; those that are gone already do not matter."""
    by_bucket: dict[str, list[str]] = {}
    for uri in uris:
        bucket, key = split(uri)
        by_bucket.setdefault(bucket, []).append(key)
    for bucket, keys in by_bucket.items():
        for start in range(0, len(keys), DELETED_AT_ONCE):
            chunk = [{"Key": key} for key in keys[start : start + DELETED_AT_ONCE]]
            said = account.call(
                "s3", "delete_objects", about=f"s3://{bucket}", Bucket=bucket, Delete={"Objects": chunk, "Quiet": True}
            )
            for error in said.get("Errors") or ():
                raise ServiceError(
                    f"s3://{bucket}/{error.get('Key')} could not be deleted: {error.get('Message')}.",
                    code=str(error.get("Code", "")),
                    action="s3:DeleteObject",
                )
