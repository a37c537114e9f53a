"""The permissions of roles on objects in S3 and on the KMS keys that encrypt them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.places import S3Place
from drivetrain.targets.sagemaker.permissions.policy import Conditions, Statement, fewest, like, minimal

_MANY = re.compile(r"\*+")


def lasting(place: S3Place, names: Names) -> S3Place:
    """A place without the hashes of content that stand in its key, which change with every deployment."""
    if place.bucket != names.bucket:
        return place
    for folder in (f"{names.root}/code/", f"{names.root}/data/"):
        if place.key.startswith(folder):
            return S3Place(place.bucket, folder)
    checkpoints = f"{names.root}/checkpoints/"
    if place.key.startswith(checkpoints):
        step = place.key.removeprefix(checkpoints).partition("/")[0]
        return S3Place(place.bucket, f"{checkpoints}{step}/")
    return place


def reading(places: Iterable[S3Place], names: Names, reason: str) -> Iterator[Statement]:
    """Getting objects, and listing what begins as the service asks for it: an input means every key with its prefix."""
    settled = [lasting(place, names) for place in places]
    if not settled:
        return
    yield Statement(
        sid="ReadObjects",
        actions=("s3:GetObject",),
        resources=minimal(names.object(place.bucket, _beginning(place)) for place in settled),
        reason=reason,
    )
    for n, bucket in enumerate(dict.fromkeys(place.bucket for place in settled if not place.whole)):
        keys = [_beginning(place) for place in settled if place.bucket == bucket and not place.whole]
        yield Statement(
            sid="ListInputs" if n == 0 else f"ListInputs{n + 1}",
            actions=("s3:ListBucket",),
            resources=(f"arn:{names.partition}:s3:::{bucket}",),
            conditions={"StringLike": {"s3:prefix": fewest(keys)}},
            reason=f"{reason}; of the bucket only what begins so",
        )


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
ONCE: Conditions = {"Null": {"s3:if-none-match": ("false",)}}


def writing(
    places: Iterable[S3Place], names: Names, reason: str, *, sid: str = "WriteObjects", once: bool = False
) -> Iterator[Statement]:
    """Putting objects into folders; `once` lets none be replaced: only requests with If-None-Match are allowed."""
    settled = [lasting(place, names) for place in places]
    if settled:
        yield Statement(
            sid=sid,
            actions=("s3:PutObject",),
            resources=minimal(names.object(place.bucket, _beginning(place)) for place in settled),
            conditions=ONCE if once else {},
            reason=reason,
        )


def bucket_key(names: Names, reads: Iterable[S3Place], writes: Iterable[S3Place] = ()) -> Iterator[Statement]:
    """The key of the bucket, used by S3 on the role's behalf; a large object is written in parts, which takes Decrypt.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
    """
    written = any(place.bucket == names.bucket for place in writes)
    if names.bucket_key is None or not (written or any(place.bucket == names.bucket for place in reads)):
        return
    yield Statement(
        sid="UseBucketKey",
        actions=("kms:Decrypt", *(("kms:GenerateDataKey",) if written else ())),
        resources=(names.bucket_key,),
        conditions={"StringEquals": {"kms:ViaService": (via_s3(names),)}},
        reason="the bucket encrypts its objects with this key",
    )


def result_keys(
    reads: Iterable[S3Place], encrypted: Sequence[tuple[S3Place, str]], names: Names
) -> Iterator[Statement]:
    """Keys that steps name for what they write, used by S3 on behalf of each role that reads it.

    Args:
        encrypted: where the steps of the pipeline write, each place with its key.
    """
    places = tuple(dict.fromkeys(reads))
    if found := minimal(key for written, key in encrypted if any(_share(written, read) for read in places)):
        yield Statement(
            sid="DecryptResults",
            actions=("kms:Decrypt",),
            resources=found,
            conditions={"StringEquals": {"kms:ViaService": (via_s3(names),)}},
            reason="what is read was written by a step that names this key for its results",
        )


def _share(one: S3Place, other: S3Place) -> bool:
    """Return True if the same object may lie in both."""
    if one.bucket != other.bucket:
        return False
    return like(_beginning(one), other.key) or like(_beginning(other), one.key)


def via_s3(names: Names) -> str:
    """S3 as KMS names it where it asks on a role's behalf."""
    return f"s3.{names.region}.amazonaws.com" + (".cn" if names.partition == "aws-cn" else "")


def job_keys(outputs: Iterable[str], volumes: Iterable[str]) -> Iterator[Statement]:
    """Keys that a job names for its results and for its disks.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html
    """
    if found := minimal(outputs):
        yield Statement(
            sid="EncryptResults",
            actions=("kms:Encrypt", "kms:GenerateDataKey", "kms:Decrypt"),
            resources=found,
            reason="the job names this key for its results",
        )
    if found := minimal(volumes):
        yield Statement(
            sid="EncryptDisks",
            actions=("kms:CreateGrant",),
            resources=found,
            conditions={"Bool": {"kms:GrantIsForAWSResource": ("true",)}},
            reason="the job names this key for its machines' disks, on which AWS itself must be able to use it",
        )


def _beginning(place: S3Place) -> str:
    return _MANY.sub("*", place.key if place.whole else f"{place.key}*")
