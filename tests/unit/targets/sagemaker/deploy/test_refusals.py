from __future__ import annotations

import sys
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.account import Account, region_or_default
from drivetrain.targets.sagemaker.refusals import AbsentError, ConditionError, ServiceError, refused
from tests.unit.targets.sagemaker.deploy.conftest import Place

ROLE = "arn:aws:sts::111122223333:assumed-role/ci/run"
DENIED = (
    f"User: {ROLE} is not authorized to perform: iam:PassRole on resource: arn:aws:iam::111122223333:role/jobs because "
    "no identity-based policy allows the iam:PassRole action"
)


class AnsweredError(Exception):
    """Shaped as botocore's ClientError."""

    def __init__(self, code: str, message: str = "", status: int = 400) -> None:
        super().__init__(message)
        self.response: dict[str, Any] = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


@pytest.mark.parametrize(
    ("service", "operation", "code", "said", "expected"),
    [
        (
            "sagemaker",
            "DescribePipeline",
            "ExpiredTokenException",
            "",
            "expired (sagemaker:DescribePipeline)",
        ),
        ("s3", "ListObjectsV2", "ExpiredToken", "", "have expired (s3:ListBucket)"),
        ("sts", "GetCallerIdentity", "InvalidClientTokenId", "", "does not know these credentials"),
        ("s3", "PutObject", "RequestTimeTooSkewed", "", "clock is wrong"),
        (
            "sagemaker",
            "UpdatePipeline",
            "AccessDeniedException",
            DENIED,
            "iam:PassRole on arn:aws:iam::111122223333",
        ),
        ("sagemaker", "UpdatePipeline", "AccessDeniedException", DENIED, f"to {ROLE}, because no identity-based"),
        ("s3", "PutObject", "AccessDenied", "Access Denied", "AWS denies s3:PutObject (the thing)"),
        ("s3", "HeadObject", "403", "Forbidden", "AWS denies s3:GetObject"),
        (
            "sagemaker",
            "UpdatePipeline",
            "ThrottlingException",
            "Rate exceeded",
            "throttling sagemaker:Update",
        ),
        (
            "sagemaker",
            "DescribePipeline",
            "ResourceNotFound",
            "Pipeline 'x' does not exist.",
            "There is no the thing in",
        ),
        ("s3", "PutObject", "NoSuchBucket", "", "There is no bucket for the thing in region eu-west-1"),
        ("sagemaker", "CreatePipeline", "ResourceLimitExceeded", "500 pipelines", "a limit of the account is reached"),
        ("s3", "PutObject", "PermanentRedirect", "", "lies in another region than eu-west-1"),
        (
            "sagemaker",
            "CreatePipeline",
            "ValidationException",
            "Could not assume role arn:aws:iam::1:role/x. Please ensure that the role exists",
            "SageMaker cannot use the role. AWS says: Could not assume role",
        ),
        ("sagemaker", "UpdatePipeline", "ConflictException", "busy", "is being changed by another process"),
        ("events", "PutRule", "InvalidEventPatternException", "bad", "AWS refuses events:PutRule (InvalidEventPattern"),
    ],
)
def test_every_refusal_says_what_to_do(service: str, operation: str, code: str, said: str, expected: str) -> None:
    error = refused(AnsweredError(code, said), service, operation, "the thing", "eu-west-1")
    assert expected in str(error)
    assert error.code == code and error.action.startswith(f"{service}:")
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("operation", "said", "absent"),
    [
        ("DescribePipeline", "Could not find pipeline with PipelineName nightly.", True),
        ("DeletePipeline", "Pipeline 'nightly' does not exist.", True),
        ("DescribePipeline", "1 validation error detected: Value at 'pipelineName' failed", False),
        ("UpdatePipeline", "The role does not exist.", False),
    ],
)
def test_a_pipeline_that_is_not_there_may_be_a_validation_error(operation: str, said: str, absent: bool) -> None:
    error = refused(AnsweredError("ValidationException", said), "sagemaker", operation, "pipeline 'nightly'", "r")
    assert isinstance(error, AbsentError) == absent


def test_missing_and_existing_objects_have_their_own_errors() -> None:
    assert isinstance(refused(AnsweredError("NoSuchKey"), "s3", "GetObject", "x", "r"), AbsentError)
    assert isinstance(refused(AnsweredError("PreconditionFailed"), "s3", "PutObject", "x", "r"), ConditionError)


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials and no region anywhere."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_without_credentials_it_says_how_to_get_some(nobody: None) -> None:
    with pytest.raises(ServiceError, match=r"No AWS credentials were found\. Log in"):
        _ = Account("eu-west-1").number


def test_without_a_region_it_says_how_to_give_one(nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServiceError, match="--region eu-west-1"):
        region_or_default(None)
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    assert region_or_default(None) == "eu-west-3" and region_or_default("us-east-1") == "us-east-1"


def test_a_profile_that_does_not_exist_is_said(nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "elsewhere")
    with pytest.raises(ServiceError, match=r"elsewhere.*list-profiles"):
        _ = Account("eu-west-1").number
    with pytest.raises(ServiceError, match="elsewhere"):
        region_or_default(None)


def test_an_endpoint_that_does_not_answer_is_said(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # discard: nobody listens
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("drivetrain.targets.sagemaker.account.ATTEMPTS", 1)
    with pytest.raises(ServiceError, match="AWS cannot be reached for the credentials in region us-east-1"):
        _ = Account("us-east-1").number


def test_an_argument_that_botocore_refuses_is_an_error_of_the_user(place: Place) -> None:
    with pytest.raises(ServiceError, match="AWS would refuse this"):
        place.account.call("sagemaker", "describe_pipeline", about="x", PipelineName=7)


def test_without_boto3_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(UserError, match=r"pip install 'drivetrain\[s3\]'"):
        _ = Account("eu-west-1").number


def test_lists_are_read_to_their_end(place: Place) -> None:
    s3 = place.outside.client("s3")
    for number in range(5):
        s3.put_object(Bucket=place.bucket, Key=f"many/{number}", Body=b"")
    found = place.account.pages(
        "s3", "list_objects_v2", "Contents", about="x", Bucket=place.bucket, Prefix="many/", MaxKeys=2
    )
    assert [item["Key"] for item in found] == [f"many/{number}" for number in range(5)]


def test_a_page_of_html_is_one_line() -> None:
    page = "<!doctype html>\n<html>\n<title>502 Bad\n Gateway</title>" + "x" * 9_000
    message = str(refused(AnsweredError("500", page), "sagemaker", "DescribePipeline", "pipeline 'x'", "eu-west-1"))
    assert "with a page of HTML, '502 Bad Gateway' (400). Check the network" in message
    assert "\n" not in message and "<" not in message
