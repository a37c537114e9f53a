"""The key of the bucket in what a plan says of IAM."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.planning.consequences import bucket_key, consequences
from drivetrain.targets.sagemaker.refusals import ServiceError
from tests.unit.targets.sagemaker.deploy.conftest import Place, definition

KEY = "1234abcd-12ab-34cd-56ef-1234567890ab"


def encrypted(place: Place, key: str | None) -> None:
    default = {"SSEAlgorithm": "aws:kms", **({} if key is None else {"KMSMasterKeyID": key})}
    place.outside.client("s3").put_bucket_encryption(
        Bucket=place.bucket,
        ServerSideEncryptionConfiguration={"Rules": [{"ApplyServerSideEncryptionByDefault": default}]},
    )


def kms(said: dict[str, Any]) -> set[tuple[str, str]]:
    """Actions and resources of KMS that roles need."""
    added = [entry for change in said["roles"].values() for entry in change["added"]]
    return {(action, resource) for action, resource, _ in added if action.startswith("kms:")}


def using_the_bucket(place: Place) -> dict[str, Any]:
    read = definition()
    read["Steps"][0]["Arguments"]["ProcessingInputs"] = [
        {"InputName": "raw", "S3Input": {"S3Uri": f"s3://{place.bucket}/pipelines/raw/", "LocalPath": "/raw"}}
    ]
    return read


@pytest.mark.parametrize("as_arn", [True, False])
def test_roles_need_the_key_that_the_bucket_encrypts_with(place: Place, as_arn: bool) -> None:
    arn = place.account.arn("kms", f"key/{KEY}")
    encrypted(place, arn if as_arn else KEY)
    said = consequences(place.account, place.wanted(definition=using_the_bucket(place)), None, None)
    assert ("kms:Decrypt", arn) in kms(said) and {resource for _, resource in kms(said)} == {arn}
    assert not [note for note in said["notes"] if "key" in note]


@pytest.mark.parametrize("key", [None, "alias/aws/s3", "arn:aws:kms:us-east-1:123456789012:alias/aws/s3"])
def test_a_key_of_awss_own_needs_no_permission(place: Place, key: str | None) -> None:
    encrypted(place, key)
    assert bucket_key(place.account, place.bucket) == (None, ())


def test_a_bucket_without_a_key_needs_none(place: Place) -> None:
    said = consequences(place.account, place.wanted(definition=using_the_bucket(place)), None, None)
    assert kms(said) == set() and not [note for note in said["notes"] if "key" in note]


def test_an_alias_is_reported_as_unusable_in_a_policy(place: Place) -> None:
    encrypted(place, "alias/ours")
    key, [note] = bucket_key(place.account, place.bucket)
    assert key is None and "alias/ours" in note


def test_an_unreadable_key_is_reported(place: Place) -> None:
    class Denying(Account):
        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            if operation == "get_bucket_encryption":
                raise ServiceError("AWS denies s3:GetEncryptionConfiguration.", code="AccessDenied")
            return super().call(service, operation, about=about, **arguments)

    said = consequences(Denying(place.account.region), place.wanted(), None, None)
    assert said["roles"]
    assert [note for note in said["notes"] if "is not known: AWS denies s3:GetEncryptionConfiguration" in note]
