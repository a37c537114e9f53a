"""Bring a registered model's files to this machine.

    fetch("s3://models/digits/output/model.tar.gz", Path("build/champion"))

`file://` URIs and plain paths are files of this machine and stay where they are. `s3://bucket/key` lies at
$DRIVETRAIN_OBJECT_STORE/bucket/key where that is set (the local runner's folders), and comes from S3 by boto3 where it
is not. Endpoint, region and credentials are found as AWS's own tools find them.
"""

from __future__ import annotations

import errno
import os
import re
from itertools import islice
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from drivetrain.aws.refusals import NotThereError, ServiceError, UnusableError
from drivetrain.base.errors import InputError
from drivetrain.base.stopping import AwayError

OBJECT_STORE = "DRIVETRAIN_OBJECT_STORE"
MOST_FILES = 100_000
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_DENIED, _ABSENT = 403, 404
_PERMISSIONS = ("s3:GetObject", "s3:ListBucket")


class AbsentArtifactError(InputError):
    """Nothing lies at the URI."""


def fetch(uri: str, folder: Path, store: Path | None = None) -> Path:
    """The folder or file that a URI names, on this machine.

    Args:
        uri: a path, file://, or s3://; of S3, the key of an object (a model.tar.gz), or a prefix that stands for a
            folder.
        folder: gets what has to be downloaded; it is made where that is needed, and untouched otherwise.
        store: stands for S3 where $DRIVETRAIN_OBJECT_STORE is not set: `objects` of a registry, outside of a run.

    Raises:
        InputError: nothing is there; another scheme; S3 refuses it; boto3 or credentials are missing; the disk is
            full.
        AwayError: S3 was away for all of the patience.
    """
    if not uri.strip():
        raise InputError("the model's place is not known: its version names no ModelDataUrl.")
    if uri.startswith("s3://"):
        bucket, key = _parse(uri)
        if beside := os.environ.get(OBJECT_STORE) or store:
            return _there(Path(beside).joinpath(bucket, *_segments(uri, key)), uri)
        return _download(uri, bucket, key, folder)
    if uri.startswith("file://"):
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            raise InputError(f"{uri} names a file of the machine {parts.netloc!r}. Allowed: file:///absolute/path.")
        return _there(Path(unquote(parts.path)), uri)
    if "://" in uri:
        raise InputError(f"{uri} cannot be fetched. Allowed: s3://bucket/key, file:///path, or a path.")
    return _there(Path(uri), uri)


def _there(path: Path, uri: str) -> Path:
    if path.exists():
        return path
    where = "" if str(path) == uri else f", which is {path},"
    raise AbsentArtifactError(f"there is nothing at {uri}{where} any more. Restore it.")


def _parse(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise InputError(f"{uri!r} names no bucket. Allowed: s3://bucket/key.")
    return bucket, key


def _segments(uri: str, key: str) -> tuple[str, ...]:
    """A key as a path below a folder."""
    parts = PurePosixPath(key.lstrip("/")).parts
    if ".." in parts or "\0" in key:
        raise InputError(f"{uri!r} leads outside of its bucket. Write the key without '..'.")
    return parts


def _download(uri: str, bucket: str, key: str, folder: Path) -> Path:
    from drivetrain.aws.s3 import Client

    client = Client(bucket, purpose="models", permissions=_PERMISSIONS)
    denied: Exception | None = None
    try:
        if key and not key.endswith("/"):
            try:
                client.call("head_object", "read", Key=key)
            except NotThereError:
                pass  # it may be a folder
            except (ServiceError, UnusableError) as error:
                # 403 also says that nothing is there, to a role that may list some prefixes only: listing tells.
                if error.status != _DENIED:
                    raise
                denied = error
            else:
                client.download(key, folder / PurePosixPath(key).name)
                return folder / PurePosixPath(key).name
        prefix = f"{key.rstrip('/')}/" if key.strip("/") else ""
        found = list(islice(client.files_below(prefix, folder, strip_slashes=True), MOST_FILES + 1))
        if len(found) > MOST_FILES:
            raise InputError(f"{uri} holds more than {MOST_FILES:,} files: not a model.")
        if denied is not None and not found:
            raise denied
        client.download_all(found)
    except AwayError:
        raise  # nobody's input is wrong
    except (ServiceError, UnusableError) as error:
        raise _refused(uri, error) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(f"no space left in {folder} for {uri}. Free some, or set TMPDIR.") from None
        raise
    if not found:
        raise AbsentArtifactError(f"there is nothing at {uri}. Give the key of an object, or the prefix of a folder.")
    return folder


def _refused(uri: str, error: ServiceError | UnusableError) -> InputError:
    said = str(error).rstrip(".")
    if error.status == _DENIED:
        # S3 says so too of a key that is not there to those who may not list the bucket.
        return InputError(
            f"S3 refuses to give {uri}: {said}. Allow the role {' and '.join(_PERMISSIONS)}: without the right to list "
            "the bucket a key that is missing looks the same."
        )
    if error.status == _ABSENT:
        what = "its bucket does not exist" if "NoSuchBucket" in said else "there is nothing"
        return AbsentArtifactError(f"{uri}: {what}. Give the key of an object, or the prefix of a folder.")
    return InputError(f"{uri} cannot be read: {said}.")
