"""Bring a registered model's files to this machine.

    fetch("s3://models/digits/output/model.tar.gz", Path("build/champion"))

`file://` URIs and plain paths are files of this machine and stay where they are. `s3://bucket/key` lies at
$DRIVETRAIN_OBJECT_STORE/bucket/key where that is set (the local runner's folders), and comes from S3 by boto3 where it
is not. Endpoint, region and credentials are found as AWS's own tools find them.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from drivetrain.base.errors import InputError

OBJECT_STORE = "DRIVETRAIN_OBJECT_STORE"
MOST_FILES = 100_000
ATTEMPTS = 5
"""Of each request, with growing pauses (botocore's "standard" retries)."""
_CONNECT_SECONDS, _STALL_SECONDS = 5.0, 20.0
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_DENIED = ("403", "AccessDenied", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken")
_ABSENT = ("404", "NoSuchKey", "NoSuchBucket", "NotFound")


class AbsentArtifactError(InputError):
    """Nothing lies at the URI."""


def fetch(uri: str, folder: Path) -> Path:
    """The folder or file that a URI names, on this machine.

    Args:
        uri: a path, file://, or s3://; of S3, the key of an object (a model.tar.gz), or a prefix that stands for a
            folder.
        folder: gets what has to be downloaded; it is made where that is needed, and untouched otherwise.

    Raises:
        InputError: nothing is there; another scheme; S3 refuses it or cannot be reached; boto3 or credentials are
            missing; the disk is full.
    """
    if not uri.strip():
        raise InputError("the model's place is not known: its version names no ModelDataUrl.")
    if uri.startswith("s3://"):
        bucket, key = _parse(uri)
        if store := os.environ.get(OBJECT_STORE):
            return _there(Path(store).joinpath(bucket, *_segments(uri, key)), uri)
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
    try:
        boto3: Any = importlib.import_module("boto3")
        config: Any = importlib.import_module("botocore.config")
        errors: Any = importlib.import_module("botocore.exceptions")
        transfer: Any = importlib.import_module("boto3.exceptions")
    except ModuleNotFoundError:
        raise InputError(
            f"{uri} lies in S3, for which the package boto3 is needed. Install it with: pip install 'drivetrain[s3]'."
        ) from None
    settings = config.Config(
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_STALL_SECONDS,
    )
    try:
        # AWS_REGION is what SageMaker sets in its jobs, and botocore does not read it.
        session = boto3.session.Session(region_name=os.environ.get("AWS_REGION") or None)
        client = session.client("s3", config=settings)
        denied: Any = None
        if key and not key.endswith("/"):
            try:
                client.head_object(Bucket=bucket, Key=key)
            except errors.ClientError as error:
                # 403 also says that nothing is there, to a role that may list some prefixes only: listing tells.
                denied = error if _is_denied(error.response) else None
                if denied is None and not _is_absent(error.response):
                    raise
            else:
                return _fetched(client, bucket, key, folder / PurePosixPath(key).name)
        prefix = f"{key.rstrip('/')}/" if key.strip("/") else ""
        found = 0
        for name in _below(client, bucket, prefix):
            found += 1
            if found > MOST_FILES:
                raise InputError(f"{uri} holds more than {MOST_FILES:,} files: not a model.")
            _fetched(client, bucket, prefix + name, folder.joinpath(*_segments(f"{uri}/{name}", name)))
        if denied is not None and not found:
            raise denied
    except errors.ClientError as error:
        kind = AbsentArtifactError if _is_absent(error.response) else InputError
        raise kind(_refused(uri, error.response)) from None
    except (errors.NoCredentialsError, errors.PartialCredentialsError, errors.TokenRetrievalError) as error:
        raise InputError(
            f"{uri} cannot be read: {_reason(error)}. Set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "or give the job a role."
        ) from None
    except (errors.BotoCoreError, transfer.Boto3Error) as error:
        raise InputError(f"{uri} could not be read in {ATTEMPTS} attempts: {_reason(error)}.") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(f"no space left in {folder} for {uri}. Free some, or set TMPDIR.") from None
        raise
    if not found:
        raise AbsentArtifactError(f"there is nothing at {uri}. Give the key of an object, or the prefix of a folder.")
    return folder


def _below(client: Any, bucket: str, prefix: str) -> Iterator[str]:
    """Names of the files below a prefix; what consoles make to show a folder is none."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", ()):
            name = str(entry["Key"]).removeprefix(prefix)
            if name and not name.endswith("/"):
                yield name


def _fetched(client: Any, bucket: str, key: str, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    client.download_file(bucket, key, str(target))  # boto3 writes beside it and renames
    return target


def _is_denied(response: Any) -> bool:
    return _code(response) in _DENIED or _status(response) == "403"


def _is_absent(response: Any) -> bool:
    return _code(response) in _ABSENT or _status(response) == "404"


def _code(response: Any) -> str:
    return str(response.get("Error", {}).get("Code", ""))


def _status(response: Any) -> str:
    return str(response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))


def _refused(uri: str, response: Any) -> str:
    code, status = _code(response), _status(response)
    if _is_denied(response):
        # S3 says so too of a key that is not there to those who may not list the bucket.
        return (
            f"S3 refuses to give {uri} ({code or status}). Allow the role s3:GetObject on it, and s3:ListBucket on its "
            "bucket, without which a key that is missing looks the same."
        )
    if _is_absent(response):
        what = "its bucket does not exist" if code == "NoSuchBucket" else "there is nothing"
        return f"{uri}: {what}. Give the key of an object, or the prefix of a folder."
    return f"S3 did not give {uri}: {response.get('Error', {}).get('Message') or code or 'status ' + status}."


def _reason(error: Exception) -> str:
    return str(error).strip().rstrip(".")
