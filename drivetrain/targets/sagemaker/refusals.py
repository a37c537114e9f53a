"""Turn a refusal by AWS into one message for people: what was asked, why not, what to do."""

from __future__ import annotations

import re
from typing import Any

from drivetrain.aws.refusals import DENIED, EXPIRED, THROTTLED, UNKNOWN_KEYS
from drivetrain.base.errors import UserError
from drivetrain.base.markup import page_in

# Calls that need the permission of another name.
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html
_ACTIONS = {
    ("s3", "HeadObject"): "s3:GetObject",
    ("s3", "ListObjectsV2"): "s3:ListBucket",
    ("s3", "HeadBucket"): "s3:ListBucket",
    ("s3", "DeleteObjects"): "s3:DeleteObject",
    ("s3", "GetBucketEncryption"): "s3:GetEncryptionConfiguration",
}
_THROTTLED = {*THROTTLED, "503", "429"}
_ABSENT = frozenset(
    [
        "ResourceNotFound",
        "ResourceNotFoundException",
        "NoSuchKey",
        "NotFound",
        "404",
        "NoSuchBucket",
        "NotFoundException",
        "ServerSideEncryptionConfigurationNotFoundError",
    ]
)
# SageMaker answers some look-ups so, and moto more of them: `Could not find pipeline with name nightly`. Words of calls
# that write may be about something else, such as a role.
_LOOKS_UP = re.compile(r"(Describe|List|Get|Stop|Delete)")
_NOT_FOUND = re.compile(r"could not find|cannot find|does not exist|not found", re.IGNORECASE)
_LIMITS = frozenset(["ResourceLimitExceeded", "LimitExceededException", "ServiceQuotaExceededException"])
_MET = frozenset(["PreconditionFailed", "412"])
# `User: arn:aws:... is not authorized to perform: iam:PassRole on resource: arn:... because no identity-based ...`
_DENIAL = re.compile(
    r"(?P<who>arn:[^\s]+) is not authorized to perform:? (?P<action>[\w-]+:\w+)"
    r"(?: on resource:? \"?(?P<resource>[^\s\"]+))?(?:.*?because (?P<why>.+))?",
    re.DOTALL,
)
_ROLE = re.compile(r"assume[^.]*role|role[^.]*(?:assum|trust|invalid|does not exist)", re.IGNORECASE)
_CREDENTIALS = (
    "Log in (aws sso login, aws configure), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)


MAX_MESSAGE = 2_000
SERVER_FAILED = 500


class ServiceError(UserError):
    """A call that AWS did not do, as far as is known.

    Attributes:
        code: the service's own word.
        action: the permission that the call needs.
        may_be_done: whether it may have been done all the same: no answer came, or one of a service that failed.
    """

    def __init__(self, message: str, *, code: str = "", action: str = "", may_be_done: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.action = action
        self.may_be_done = may_be_done


class AbsentError(ServiceError):
    """The requested resource does not exist."""


class DeniedError(ServiceError):
    """The credentials may not do the call."""


class ConditionError(ServiceError):
    """A conditional write whose condition does not hold: the object is there already."""


class ConflictError(ServiceError):
    """A conditional write that met another of the same object: it is to be tried again."""


def action_of(service: str, operation: str) -> str:
    """The permission that a call needs, such as `sagemaker:DescribePipeline`."""
    return _ACTIONS.get((service, operation), f"{service}:{operation}")


def refused(error: Any, service: str, operation: str, about: str, region: str) -> ServiceError:
    """The message for what a service answered (botocore's ClientError).

    Args:
        operation: the call's name in the API, such as `DescribePipeline`.
        about: what the call was about, such as `pipeline 'retraining'`.
    """
    said: dict[str, Any] = error.response.get("Error", {})
    code, message = str(said.get("Code", "")), " ".join(str(said.get("Message", "")).split())[:MAX_MESSAGE].rstrip(".")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if (title := page_in(message)) is not None:
        return foreign(about, f"a page of HTML, {title!r} ({status})")
    action = action_of(service, operation)
    absent = code in _ABSENT or (
        service == "sagemaker"
        and code == "ValidationException"
        and _LOOKS_UP.match(operation) is not None
        and _NOT_FOUND.search(message) is not None
    )
    kind, text = _words(code, message, status, service, action, about, region, absent=absent)
    return kind(text, code=code, action=action, may_be_done=isinstance(status, int) and status >= SERVER_FAILED)


def foreign(about: str, answer: str) -> ServiceError:
    """The message for an answer that does not come from the service, but from a proxy or a login page."""
    return ServiceError(
        f"{about}: something on the way answered in the place of AWS, with {answer}. Check the network, HTTPS_PROXY "
        "and AWS_ENDPOINT_URL, then repeat.",
        may_be_done=True,
    )


def _words(
    code: str, message: str, status: Any, service: str, action: str, about: str, region: str, *, absent: bool
) -> tuple[type[ServiceError], str]:
    if code in EXPIRED:
        return ServiceError, f"The AWS credentials have expired ({action}). Log in again (aws sso login), then repeat."
    if code in UNKNOWN_KEYS:
        return ServiceError, f"AWS does not know these credentials ({code}, calling {action}). {_CREDENTIALS}."
    if code == "RequestTimeTooSkewed":
        return ServiceError, "This machine's clock is wrong by more than AWS allows. Set the clock, then repeat."
    if code in (*DENIED, "403") or (not absent and status == 403):
        return DeniedError, _denial(message, action, about)
    if code in _THROTTLED:
        return ServiceError, (
            f"AWS is throttling {action} ({about}), also after several tries. Nothing is half done that applying again "
            "does not complete; wait a minute, then repeat."
        )
    if code in _MET:
        return ConditionError, f"{about} is there already."
    if code == "ConditionalRequestConflict":
        return ConflictError, f"{about} is being written by another process at the same time. Wait, then repeat."
    if code == "NoSuchBucket":
        return AbsentError, (
            f"There is no bucket for {about} in region {region}. Make it (infra/ has the stack), or give another one: "
            "--set deployment.targets.sagemaker.bucket=NAME"
        )
    if absent:
        told = f" AWS says: {message}." if message else ""
        if service == "sagemaker" and about.startswith("pipeline "):
            told = f" Those that are there: drivetrain list --deployed --region {region}"
        return AbsentError, f"There is no {about} in region {region}.{told}"
    if code in _LIMITS:
        return ServiceError, f"{about}: a limit of the account is reached. AWS says: {message}. Ask for a higher quota."
    if code == "PermanentRedirect" or status == 301:
        return (
            ServiceError,
            f"{about} lies in another region than {region}. Give its region: "
            "--set deployment.targets.sagemaker.region=...",
        )
    if service == "sagemaker" and _ROLE.search(message):
        return ServiceError, (
            f"{about}: SageMaker cannot use the role. AWS says: {message}. Give a role that exists and trusts "
            "sagemaker.amazonaws.com: --set deployment.targets.sagemaker.role=ARN"
        )
    if code == "ConflictException":
        return ServiceError, f"{about} is being changed by another process. AWS says: {message}. Wait, then repeat."
    return ServiceError, f"{about}: AWS refuses {action} ({code or status}): {message or 'without a reason'}."


def _denial(message: str, action: str, about: str) -> str:
    found = _DENIAL.search(message)
    if found is None:
        return (
            f"AWS denies {action} ({about}). Allow that action to the role you use (docs/deploying.md lists what each "
            "command needs)."
        )
    why = f", because {found['why'].rstrip('.')}" if found["why"] else ""
    on = f" on {found['resource']}" if found["resource"] else f" ({about})"
    return (
        f"AWS denies {found['action']}{on} to {found['who']}{why}. Allow it to that role (docs/deploying.md lists what "
        "each command needs)."
    )


# Names of botocore's own exceptions, which are raised before or instead of an answer.
_LOCAL = {
    "NoCredentialsError": f"No AWS credentials were found. {_CREDENTIALS}.",
    "PartialCredentialsError": f"The AWS credentials are incomplete. {_CREDENTIALS}.",
    "CredentialRetrievalError": f"The AWS credentials could not be fetched. {_CREDENTIALS}.",
    "TokenRetrievalError": "The AWS session has ended. Log in again (aws sso login), then repeat.",
    "UnauthorizedSSOTokenError": "The AWS session has ended. Log in again (aws sso login), then repeat.",
    "SSOTokenLoadError": "There is no AWS session. Log in (aws sso login), then repeat.",
    "LoginRefreshRequired": "The AWS session has ended. Log in again (aws login), then repeat.",
    "NoRegionError": "No AWS region is given. Give one: --region eu-west-1, or set AWS_REGION.",
}
_NETWORK = frozenset(
    [
        "EndpointConnectionError",
        "ConnectTimeoutError",
        "ReadTimeoutError",
        "ConnectionClosedError",
        "ProxyConnectionError",
        "SSLError",
        "HTTPClientError",
        "ConnectionError",
        "ResponseStreamingError",
    ]
)


def passes(error: ServiceError) -> bool:
    """Return True if the same call may succeed a little later: a network error, a service that is down, too many
    calls."""
    return error.may_be_done or error.code in _THROTTLED


def unanswered(error: BaseException, about: str, region: str) -> ServiceError:
    """The message for a call that got no answer (botocore's BotoCoreError)."""
    name = type(error).__name__
    said = " ".join(str(error).split()).rstrip(".")
    if name in _LOCAL:
        return ServiceError(_LOCAL[name], code=name)
    if name == "ProfileNotFound":
        return ServiceError(f"{said}. Give one of `aws configure list-profiles`: AWS_PROFILE=NAME.", code=name)
    if name == "ParamValidationError":
        return ServiceError(f"{about}: AWS would refuse this. {said[:600]}.", code=name)
    if name in _NETWORK:
        return ServiceError(
            f"AWS cannot be reached for {about} in region {region}: {said}. Is the region right? Is there a network?",
            code=name,
            may_be_done=True,
        )
    return ServiceError(f"{about}: {said} ({name}).", code=name, may_be_done=True)
