"""Errors of S3: what was not done, why, and whether it is the user's to mend."""

# botocore has no types of its own.
# pyright: basic

from __future__ import annotations

import errno
import re
import socket

from drivetrain.base.errors import InputError
from drivetrain.base.stopping import AwayError

# Codes of answers, whichever service of AWS's gives them.
EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
UNKNOWN_KEYS = frozenset(
    [
        *("InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "InvalidToken"),
        *("SignatureDoesNotMatch", "InvalidSignatureException", "IncompleteSignature", "IncompleteSignatureException"),
        *("MissingAuthenticationToken", "MissingAuthenticationTokenException"),
    ]
)
DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NotAuthorized", "Forbidden"})
THROTTLED = frozenset(
    [
        *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException"),
        *("EC2ThrottledException", "SlowDown", "TooManyRequestsException", "RequestLimitExceeded"),
    ]
)


class ServiceError(OSError):
    """S3 did not do it, however often it was asked; the message names the operation, the object and the last reason."""

    def __init__(self, message: str, *, status: int = 0, reason: str) -> None:
        # EREMOTEIO and not EIO: nothing is known to be wrong with what lies there.
        super().__init__(errno.EREMOTEIO, message)
        self.status, self.reason = status, reason

    def __str__(self) -> str:
        return self.strerror or ""


class DeniedError(ServiceError, PermissionError):
    """There are no credentials, or S3 refuses them the operation."""


class UnusableError(InputError):
    """The first request is refused: credentials, permissions or the bucket are to be mended."""

    def __init__(self, message: str, *, status: int = 0, reason: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


class WrongAddressError(UnusableError):
    """Nobody has the service's name, or a stranger answers to it."""


class NotThereError(ServiceError, FileNotFoundError):
    """There is no such object, or no such upload."""


class NoAnswerError(ServiceError, AwayError):
    """S3 was away for as long as it is waited for: no connection, no answer, or a failure of its own each time."""


def is_wrong_address(error: Exception) -> bool:
    """True where nobody has that name, or a stranger answers to it: a service that is away has both right."""
    inner: BaseException | None = getattr(error, "kwargs", {}).get("error")
    if "CERTIFICATE_VERIFY_FAILED" in str(inner):
        return True
    while inner is not None and not isinstance(inner, socket.gaierror):
        inner = inner.__cause__ or inner.__context__
    return inner is not None and inner.errno == socket.EAI_NONAME


def is_missing_setting(error: Exception) -> bool:
    """True if no request was made: no credentials, no region, or an invalid address. Other failures to get credentials
    may pass, since the service that issues them may be down for a moment."""
    from botocore.exceptions import NoCredentialsError, NoRegionError

    return isinstance(error.__cause__, NoCredentialsError | NoRegionError | ValueError)


def reason_of(error: Exception) -> str:
    """The reason of an error, without parts that may hold a secret."""
    inner = getattr(error, "kwargs", {}).get("error")  # without the address that was asked
    return without_password(f"{type(error).__name__}: {inner or error}")


def how_to_set_up(why: object) -> str:
    return (
        f"no access to S3 as this machine is set up: {without_password(str(why))}. Give it a role that may use the "
        "bucket, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN too, if you have one), or "
        "AWS_PROFILE. For a service other than AWS set AWS_ENDPOINT_URL_S3, like https://minio.example:9000."
    )


def without_password(text: str) -> str:
    return re.sub(r"://[^/@\s]*@", "://...@", text)
