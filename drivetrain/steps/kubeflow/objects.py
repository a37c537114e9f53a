"""Objects of S3-compatible storage as folders of this machine, and back: for pods to which KFP brings nothing.

boto3 finds endpoint (AWS_ENDPOINT_URL_S3), region and credentials, cuts large objects into parts and tries requests
again; it is imported here alone, when there is something to move.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drivetrain.steps.kubeflow.task import Json, RetryError, TaskError

SCHEMES = ("s3", "minio")
_AT_ONCE = 8
_ATTEMPTS = 8


def download(uri: str, target: Path) -> None:
    """Bring an object to a file, or all that lies below a URI into a folder, which is made in any case.

    Raises:
        TaskError: no access, or no such bucket.
        RetryError: the storage does not answer.
    """
    bucket, key = _parts(uri)
    with _told(uri):
        client = _client()
        keys = [name for name in _keys(client, bucket, key) if not name.endswith("/")]
        if keys == [key]:
            target.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(bucket, key, str(target))
            return
        target.mkdir(parents=True, exist_ok=True)
        files = {name: _inside(target, name[len(key) + 1 :]) for name in keys if name.startswith(f"{key}/")}
        for folder in {file.parent for file in files.values()}:
            folder.mkdir(parents=True, exist_ok=True)
        _each(lambda name: client.download_file(bucket, name, str(files[name])), list(files))


def upload(source: Path, uri: str) -> None:
    """Put a folder's files below a URI, in place of all that lies there.

    Raises:
        TaskError, RetryError: as `download`.
    """
    bucket, key = _parts(uri)
    with _told(uri):
        client = _client()
        files = {f"{key}/{path.relative_to(source).as_posix()}": path for path in source.rglob("*") if path.is_file()}
        _each(lambda name: client.upload_file(str(files[name]), bucket, name), list(files))
        stale = [name for name in _keys(client, bucket, f"{key}/") if name not in files]
        _each(lambda name: client.delete_object(Bucket=bucket, Key=name), stale)


def read(uri: str) -> bytes | None:
    """An object's content; None where there is none."""
    bucket, key = _parts(uri)
    with _told(uri):
        client = _client()
        try:
            return client.get_object(Bucket=bucket, Key=key)["Body"].read()
        except client.exceptions.ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            raise


def write(uri: str, content: bytes) -> None:
    """Make an object, or replace it."""
    bucket, key = _parts(uri)
    with _told(uri):
        _client().put_object(Bucket=bucket, Key=key, Body=content)


def _parts(uri: str) -> tuple[str, str]:
    scheme, mark, rest = uri.partition("://")
    if not mark or scheme not in SCHEMES:
        raise TaskError(f"{uri} is of a scheme that nodes of a TrainJob cannot reach. Allowed: {', '.join(SCHEMES)}.")
    bucket, _, key = rest.partition("/")
    return bucket, key.rstrip("/")


def _keys(client: Any, bucket: str, prefix: str) -> list[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [each["Key"] for page in pages for each in page.get("Contents", ())]


def _inside(folder: Path, name: str) -> Path:
    """
    Raises:
        TaskError: the key would lead out of the folder.
    """
    if ".." in name.split("/") or name.startswith("/"):
        raise TaskError(f"an object's key ends with {name!r}, which leads out of its folder.")
    return folder / name


def _each(move: Callable[[str], Any], names: list[str]) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(move, names):
            continue


@functools.cache
def _client() -> Any:
    try:
        boto3: Any = importlib.import_module("boto3")
        config: Any = importlib.import_module("botocore.config")
    except ModuleNotFoundError:
        raise TaskError("objects at s3:// need the package boto3, which the image lacks. Install it there.") from None
    settings = config.Config(
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        max_pool_connections=2 * _AT_ONCE,
        request_checksum_calculation="when_required",  # other services than AWS's may not know the newer ones
        response_checksum_validation="when_required",
    )
    return boto3.client("s3", region_name=os.environ.get("AWS_REGION") or None, config=settings)


@contextmanager
def _told(uri: str) -> Generator[None]:
    """What boto3 raises, as errors that name the place."""
    try:
        yield
    except TaskError:
        raise
    except Exception as error:
        errors: Any = importlib.import_module("botocore.exceptions")
        transfer: Any = importlib.import_module("boto3.exceptions").Boto3Error
        if not isinstance(error, (transfer, errors.BotoCoreError, errors.ClientError)):
            raise
        # A transfer's error has the request's as its context.
        cause: Any = error.__cause__ or error.__context__ if isinstance(error, transfer) else error
        answer: Json = getattr(cause, "response", {})
        status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        text = f"{uri}: {error}"
        mendable = isinstance(cause, (errors.NoCredentialsError, errors.NoRegionError))
        if mendable or (400 <= status < 500 and status != 429):
            raise TaskError(f"{text}. Give the pods a role for the bucket, or settings with s3_secret.") from None
        raise RetryError(f"{text}. It can be tried again.") from None
