"""Objects of the bucket: written once under the hash of their content, listed, read, taken away."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable
from pathlib import Path

from drivetrain.assets.assets import Asset
from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.refusals import ConditionError, ConflictError, ServiceError

# What one PUT takes. Larger data does not belong into a deployment: it lies in S3, and settings name it.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/upload-objects.html
MAX_SINGLE_PUT = 5 * 1024**3
DELETED_AT_ONCE = 1_000
LOOKS_AGAIN = (0.2, 1.0, 3.0)
"""Seconds before writing once more where another write of the same object was on its way."""


def split(uri: str) -> tuple[str, str]:
    """Bucket and key of an s3:// URI."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


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
    """Write an object over the one that is there.

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
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    if size > MAX_SINGLE_PUT:
        raise UserError(
            f"{content} has {size:,} bytes; {MAX_SINGLE_PUT:,} at most go up with a pipeline. Put it into the bucket "
            "yourself (aws s3 cp), and give its s3:// URI in the settings."
        )
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


def missing(account: Account, assets: Iterable[Asset]) -> tuple[Asset, ...]:
    """Those that are not in the bucket, or have another size there: one request a folder of a thousand objects."""
    wanted = list(assets)
    sizes: dict[str, int] = {}
    for folder in dict.fromkeys(asset.uri.rpartition("/")[0] + "/" for asset in wanted):
        if not any(folder != other and folder.startswith(other) for other in _folders(wanted)):
            sizes |= listed(account, folder)
    return tuple(asset for asset in wanted if sizes.get(asset.uri) != size_of(asset))


def _folders(assets: Iterable[Asset]) -> set[str]:
    return {asset.uri.rpartition("/")[0] + "/" for asset in assets}


def listed(account: Account, folder: str) -> dict[str, int]:
    """URI -> size in bytes of each object below a folder's URI."""
    bucket, prefix = split(folder)
    found = account.pages("s3", "list_objects_v2", "Contents", about=folder, Bucket=bucket, Prefix=prefix)
    return {f"s3://{bucket}/{item['Key']}": int(item["Size"]) for item in found}


def size_of(asset: Asset) -> int:
    """Bytes of an asset."""
    return len(asset.content) if isinstance(asset.content, bytes) else asset.content.stat().st_size


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
