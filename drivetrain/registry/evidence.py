"""The evidence of a group: what its comparisons with champions have shown so far, kept with the registry.

    place = place_of(registry, champion)
    change_evidence(place, lambda kept: kept + new)     # no change is lost, whoever makes one at the same moment

The registry of this machine keeps it in `evidence/GROUP.npz` beside its ledger; those of MLflow and Kubeflow beside the
models, in the champion's bucket, as `drivetrain-evidence/GROUP.npz`. Neither a fresh start nor the removal of runs
removes it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import InputError
from drivetrain.base.file_locks import hold
from drivetrain.registry.artifacts import OBJECT_STORE
from drivetrain.registry.registry import ModelVersion, Registry, RegistryError

if TYPE_CHECKING:
    from drivetrain.base.s3_client import Client

FOLDER = "drivetrain-evidence"
_MOST_ATTEMPTS = 20
# What S3 answers where the object was written or removed since it was read.
_CHANGED = (404, 409, 412)


def place_of(registry: Registry, champion: ModelVersion) -> str | None:
    """Where the evidence of the champion's group lies: a path, or an s3:// URI. None where there is no place for it:
    the models of a registry on another machine are files of this one, or a job's role may not write there, as that of
    SageMaker's jobs."""
    if registry.objects is not None:
        return str(registry.objects.parent / "evidence" / f"{champion.group}.npz")
    if not champion.artifact.startswith("s3://") or champion.arn.startswith("arn:") or os.environ.get(OBJECT_STORE):
        return None
    bucket = champion.artifact.removeprefix("s3://").partition("/")[0]
    return f"s3://{bucket}/{FOLDER}/{champion.group}.npz"


def change_evidence(place: str, change: Callable[[bytes], bytes]) -> None:
    """Keep what `change` makes of the evidence that is there, which is empty at first.

    Raises:
        RegistryError: it cannot be read or written.
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
        raise RegistryError(f"the evidence of earlier comparisons, {path}: {error.strerror or error}.") from None


def _change_object(place: str, change: Callable[[bytes], bytes]) -> None:
    bucket, _, key = place.removeprefix("s3://").partition("/")
    for _ in range(_MOST_ATTEMPTS):
        kept, unchanged = _object(place, bucket, key)
        changed = change(kept)
        if changed == kept or _is_put(place, bucket, key, changed, unchanged):
            return
    raise RegistryError(f"{place} was changed by others {_MOST_ATTEMPTS} times meanwhile. Try again.")


def _object(place: str, bucket: str, key: str) -> tuple[bytes, dict[str, str]]:
    """The object, empty where there is none, and the condition that it is still this one."""
    from drivetrain.base.s3_client import NotThereError, ServiceError

    try:
        content, tag = _client(bucket).fetch(key)
    except NotThereError:
        return b"", {"IfNoneMatch": "*"}
    except (ServiceError, InputError) as error:
        raise _refused(place, error) from None
    return bytes(content), {"IfMatch": tag}


def _is_put(place: str, bucket: str, key: str, content: bytes, unchanged: dict[str, str]) -> bool:
    """Write the object; False where another comparison has written meanwhile."""
    from drivetrain.base.s3_client import ServiceError

    try:
        _client(bucket).call("put_object", "write", Key=key, Body=content, **unchanged)
    except (ServiceError, InputError) as error:
        if getattr(error, "status", 0) in _CHANGED:
            return False
        raise _refused(place, error) from None
    return True


def _client(bucket: str) -> Client:
    from drivetrain.base.s3_client import Client, Patience

    return Client(
        bucket, Patience(), purpose="evidence of earlier comparisons", permissions=("s3:GetObject", "s3:PutObject")
    )


def _refused(place: str, error: Exception) -> RegistryError:
    return RegistryError(
        f"the evidence of earlier comparisons: {str(error).rstrip('.')}. Allow the role s3:GetObject and s3:PutObject "
        f'on {place}, and s3:ListBucket on its bucket, or compare with nights="bonferroni".'
    )
