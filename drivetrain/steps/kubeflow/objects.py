"""Objects of S3-compatible storage as folders of this machine, and back: for pods to which KFP brings nothing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from drivetrain.aws.refusals import ServiceError, UnusableError, is_missing_setting
from drivetrain.aws.s3 import Client, Patience, side_by_side, split
from drivetrain.base.errors import InputError
from drivetrain.steps.kubeflow.task import RetryError, TaskError

SCHEMES = ("s3", "minio")
PATIENCE = Patience()


def download(uri: str, target: Path) -> None:
    """Bring an object to a file, or all that lies below a URI into a folder, which is made in any case.

    Raises:
        TaskError: no access, or no such bucket.
        RetryError: the storage does not answer.
    """
    with _storage(uri) as (client, key):
        files = list(client.files_below(f"{key}/", target))
        if not files and key in (entry["Key"] for entry in client.listed(key)):
            client.download(key, target)
            return
        target.mkdir(parents=True, exist_ok=True)
        client.download_all(files)


def upload(source: Path, uri: str) -> None:
    """Put a folder's files below a URI, in place of all that lies there.

    Raises:
        TaskError, RetryError: as `download`.
    """
    with _storage(uri) as (client, key):
        files = {f"{key}/{path.relative_to(source).as_posix()}": path for path in source.rglob("*") if path.is_file()}
        side_by_side(lambda name: client.upload(files[name], name), files)
        there = [entry["Key"] for entry in client.listed(f"{key}/")]
        side_by_side(client.delete, [name for name in there if name not in files])


def read(uri: str) -> bytes | None:
    """An object's content; None if there is no such object."""
    with _storage(uri) as (client, key):
        return client.read(key)


def write(uri: str, content: bytes) -> None:
    """Make an object, or replace it."""
    with _storage(uri) as (client, key):
        client.call("put_object", "write", Key=key, Body=content)


@contextmanager
def _storage(uri: str) -> Generator[tuple[Client, str]]:
    """The client of a URI's bucket, and the key; errors name the place.

    Raises:
        TaskError, RetryError: as `download`.
    """
    if uri.partition("://")[0] not in SCHEMES:
        raise TaskError(f"{uri} has a scheme that nodes of a TrainJob cannot reach. Allowed: {', '.join(SCHEMES)}.")
    bucket, key = split(uri)
    try:
        yield Client(bucket, PATIENCE, purpose="objects"), key.rstrip("/")
    except (ServiceError, UnusableError) as error:
        if is_missing_setting(error) or 400 <= error.status < 500:
            help = "Give the pods a role for the bucket, or settings with s3_secret."
            raise TaskError(f"{uri}: {error.reason}. {help}") from None
        raise RetryError(f"{uri}: {error.reason}. It can be tried again.") from None
    except InputError as error:
        raise TaskError(str(error)) from None
