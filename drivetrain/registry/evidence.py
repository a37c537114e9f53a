"""The evidence of a group, kept with the registry: what its comparisons with champions have shown so far, the nights
of its data, and what was found in the data that its approved version served.

    place = place_of(registry, group, champion)
    change_evidence(place, lambda kept: kept + new)     # concurrent changes are not lost

The registry of this machine keeps it in `evidence/GROUP.npz` beside its ledger; a deployment to SageMaker in its own
bucket and prefix, as `drivetrain-evidence/GROUP.npz`; other registries of MLflow and Kubeflow so in the champion's
bucket. Neither a fresh start nor the removal of runs removes it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import InputError
from drivetrain.base.file_locks import hold
from drivetrain.base.stopping import AwayError
from drivetrain.registry.artifacts import OBJECT_STORE
from drivetrain.registry.registry import ModelVersion, Registry, RegistryError

if TYPE_CHECKING:
    from drivetrain.aws.s3 import Client

FOLDER = "drivetrain-evidence"
DATA = "-data"
SERVED = "-served.json"
FOLDER_VARIABLE = "DRIVETRAIN_EVIDENCE"
"""Has the URI of the folder that a job may write to, where its role may write to no other."""
_MOST_ATTEMPTS = 20
# What S3 answers where the object was written since it was read.
_CHANGED = (409, 412)
_IF_THERE_IS_NONE = {"IfNoneMatch": "*"}


class _DeniedError(Exception):
    """The object may not be read, or is not there."""


def place_of(registry: Registry, group: str, champion: ModelVersion | None, part: str = "") -> str | None:
    """The place of the evidence of a group: a path, or an s3:// URI. None where there is no place for it: the models of
    a registry on another machine are files of this one, or its account's jobs say no folder, or no champion's files say
    the bucket.

    Args:
        part: of the evidence: "" for what comparisons have shown, DATA for the nights of the data, or below DATA,
            SERVED for findings in served data.
    """
    name = f"{group}{part}" if part == SERVED else f"{group}{part}.npz"
    if registry.objects is not None:
        return str(registry.objects.parent / "evidence" / name)
    if os.environ.get(OBJECT_STORE):
        return None
    if folder := os.environ.get(FOLDER_VARIABLE):
        return f"{folder}/{name}"
    if champion is None or not champion.artifact.startswith("s3://") or champion.arn.startswith("arn:"):
        return None
    bucket = champion.artifact.removeprefix("s3://").partition("/")[0]
    return f"s3://{bucket}/{FOLDER}/{name}"


def read_evidence(place: str) -> bytes:
    """The evidence that is there; empty where there is none, or where the role may not read it.

    Raises:
        RegistryError: it cannot be read.
        AwayError: S3 was away for all of the patience.
    """
    if place.startswith("s3://"):
        bucket, _, key = place.removeprefix("s3://").partition("/")
        try:
            return _object(place, bucket, key)[0]
        except _DeniedError:  # as S3 says of an object that is not there, too
            return b""
    try:
        return Path(place).read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise RegistryError(f"{_named(place)}, {place}: {error.strerror or error}.") from None


def change_evidence(place: str, change: Callable[[bytes], bytes]) -> None:
    """Keep what `change` makes of the evidence that is there, which is empty at first.

    Raises:
        RegistryError: it cannot be read or written.
        AwayError: S3 was away for all of the patience.
    """
    if place.startswith("s3://"):
        _change_object(place, change)
        return
    path = Path(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            hold(folder, fcntl.LOCK_EX)
            kept = path.read_bytes() if path.exists() else b""
            changed = change(kept)
            if changed != kept:
                beside = path.with_name(f".{path.name}.part")
                beside.write_bytes(changed)
                beside.replace(path)
        finally:
            os.close(folder)
    except OSError as error:
        raise RegistryError(f"{_named(place)}, {path}: {error.strerror or error}.") from None


def _change_object(place: str, change: Callable[[bytes], bytes]) -> None:
    bucket, _, key = place.removeprefix("s3://").partition("/")
    denied: RegistryError | None = None
    for _ in range(_MOST_ATTEMPTS):
        try:
            kept, unchanged = _object(place, bucket, key)
        except _DeniedError as error:
            # To a role that may not list the bucket S3 says 403 of an object that is not there, too
            # (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html): then a first one can be put.
            if denied is not None:
                raise denied from None
            denied, kept, unchanged = _refused(place, error), b"", _IF_THERE_IS_NONE
        changed = change(kept)
        if changed == kept or _is_put(place, bucket, key, changed, unchanged):
            return
    raise RegistryError(f"{place} was changed by others {_MOST_ATTEMPTS} times meanwhile. Try again.")


def _object(place: str, bucket: str, key: str) -> tuple[bytes, dict[str, str]]:
    """The object (empty if it is missing) and the condition that it has not changed since."""
    from drivetrain.aws.s3 import NotThereError, ServiceError

    try:
        content, tag = _client(bucket).fetch(key)
    except NotThereError:
        return b"", _IF_THERE_IS_NONE
    except AwayError:
        raise
    except (ServiceError, InputError) as error:
        if getattr(error, "status", 0) == 403:
            raise _DeniedError(str(error)) from None
        raise _refused(place, error) from None
    return bytes(content), {"IfMatch": tag}


def _is_put(place: str, bucket: str, key: str, content: bytes, unchanged: dict[str, str]) -> bool:
    """Write the object; False where another comparison has written meanwhile."""
    from drivetrain.aws.s3 import NotThereError, ServiceError

    try:
        _client(bucket).call("put_object", "write", Key=key, Body=content, **unchanged)
    except AwayError:
        raise
    except (ServiceError, InputError) as error:
        if isinstance(error, NotThereError) or getattr(error, "status", 0) in _CHANGED:
            return False
        raise _refused(place, error) from None
    return True


def _client(bucket: str) -> Client:
    from drivetrain.aws.s3 import Client

    return Client(bucket, purpose="evidence of a model group", permissions=("s3:GetObject", "s3:PutObject"))


def _refused(place: str, error: Exception) -> RegistryError:
    without = "" if DATA in place or SERVED in place else ', or compare with nights="bonferroni"'
    return RegistryError(
        f"{_named(place)}: {str(error).rstrip('.')}. Allow the role s3:GetObject and s3:PutObject on {place}{without}."
    )


def _named(place: str) -> str:
    if place.endswith(SERVED):
        return "the findings in served data"
    return "the nights of the data" if DATA in place else "the evidence of earlier comparisons"
