"""Asks S3 with boto3's client: each request tried for so long and no longer, content too; errors name the object.

boto3's core signs, finds endpoint, region, credentials, proxies and certificates. Its own retries are off: they count
attempts, of which a refused connection uses five up within seconds, and they leave broken content to the caller.
boto3 is needed only by those who keep checkpoints at an s3:// location, or read data from one. It is imported when such
a place is opened.
"""

# botocore has no types of its own.
# pyright: basic

from __future__ import annotations

import errno
import functools
import logging
import os
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from drivetrain.base import stopping
from drivetrain.base.errors import WARNING, InputError
from drivetrain.base.stopping import AwayError

CONNECTIONS = 8
"""Of one transfer."""
_PIECE = 1 << 20  # received at once: so much memory is needed beside the buffer
# Another request for the same object is under way (S3 wants this one again), or this one came too slowly.
_PASSING = frozenset({"ConditionalRequestConflict", "OperationAborted", "RequestTimeout"})
_NEVER = frozenset({501, 505})  # of those from 500 on: what the service cannot do, now or later
_LONGEST_PAUSE_S = 2.0
_jitter = random.Random()  # a training draws from Python's own generator, and resumes it
_SILENT_S = 5.0  # an outage that is longer than this is told
_FOR_CHECKPOINTS = (
    *("s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"),
    *("s3:AbortMultipartUpload", "s3:ListBucketMultipartUploads"),
)
_CREDENTIALS = frozenset(
    {"ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "TokenRefreshRequired"}
)


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a request is tried again while the service is away: `seconds`, or what a process that is told to stop
    has left (`stopping`). Each attempt ends when nothing comes for `stall_seconds`; there is at least one."""

    seconds: float = 120.0
    connect_seconds: float = 5.0
    stall_seconds: float = 20.0


class ServiceError(OSError):
    """S3 did not do it, however often it was asked; the message names the operation, the object and the last reason."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        # EREMOTEIO and not EIO: nothing is known to be wrong with what lies there.
        super().__init__(errno.EREMOTEIO, message)
        self.status = status

    def __str__(self) -> str:
        return self.strerror or ""


class DeniedError(ServiceError, PermissionError):
    """There are no credentials, or S3 refuses them the operation."""


class UnusableError(InputError):
    """The first request is refused: credentials, permissions or the bucket are to be mended."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class NotThereError(ServiceError, FileNotFoundError):
    """There is no such object, or no such upload."""


class NoAnswerError(ServiceError, AwayError):
    """S3 was away for as long as it is waited for: no connection, no answer, or a failure of its own each time."""


class _PassingError(Exception):
    """An attempt failed in a way that passes: why."""


T = TypeVar("T")


class Client:
    """What asks for one bucket. Threads may share it; each process opens its own.

    Args:
        purpose: what the bucket is for, for messages: "checkpoints", "data".
        permissions: what is needed for it.

    Raises:
        InputError: boto3 is not installed.
    """

    def __init__(
        self,
        bucket: str,
        patience: Patience,
        *,
        purpose: str = "checkpoints",
        permissions: Sequence[str] = _FOR_CHECKPOINTS,
    ) -> None:
        try:
            import botocore.session  # noqa: F401
        except ModuleNotFoundError:
            raise InputError(
                f"{purpose} at s3:// need the package boto3, which is not installed. "
                "Install it with: pip install 'drivetrain[s3]' (or: pip install boto3)"
            ) from None
        self.bucket = bucket
        self.patience = patience
        self._needs = (
            f"{purpose.capitalize()} at s3://{bucket} need a bucket that is there and {', '.join(permissions)} on it."
        )
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._made: Any = None
        self._reached = False

    def call(self, operation: str, doing: str, **given: Any) -> Any:
        """The answer of boto3's client.

        Args:
            doing: the operation, for messages: "write", "list", ...

        Raises:
            NotThereError, DeniedError: see there.
            NoAnswerError: S3 was away for all of the patience.
            ServiceError: refused for another reason (`status`).
            InputError: the first request ever is refused for a reason that the user can mend.
        """
        return self._patiently(doing, given.get("Key", ""), lambda: self._ask(operation, doing, given))

    def fetch(self, key: str, into: memoryview | None = None, **given: str) -> tuple[memoryview, str]:
        """Content and entity tag of an object or, as `given`, of a part of it; raises as `call` does."""

        def ask() -> tuple[memoryview, str]:
            answer = self._ask("get_object", "read", {"Key": key, **given})
            return _content(answer, into), answer["ETag"]

        return self._patiently("read", key, ask)

    def download(self, key: str, path: Path) -> None:
        """Bring an object to a file, its parts side by side; raises as `call` does."""
        from boto3.exceptions import RetriesExceededError
        from boto3.s3.transfer import S3Transfer

        def bring(client: Any) -> None:
            try:
                S3Transfer(client).download_file(self.bucket, key, str(path))  # it writes beside it and renames
            except RetriesExceededError as error:
                raise _PassingError(_reason(error.last_exception)) from error

        self._patiently("read", key, lambda: self._attempt("read", key, bring))

    def _patiently(self, doing: str, key: str, ask: Callable[[], T]) -> T:
        began, attempts, told = time.monotonic(), 0, False
        while True:
            attempts += 1
            try:
                answer = ask()
            except _PassingError as error:
                now = time.monotonic()
                pause = _jitter.uniform(0, min(_LONGEST_PAUSE_S, 0.05 * 2**attempts))
                if now + pause >= min(began + self.patience.seconds, stopping.leaves_by()):
                    raise NoAnswerError(
                        f"S3 did not {doing} {self._uri(key)}: given up after {now - began:.1f} s and {attempts} "
                        f"attempts; the last: {error}"
                    ) from error
                if now - began > _SILENT_S and not told:
                    told = True
                    self._tell(f"{self._uri(key)}: {error}")
                time.sleep(pause)
            else:
                if isinstance(answer, dict):
                    answer["ResponseMetadata"]["RetryAttempts"] = attempts - 1
                return answer

    def _tell(self, what: str) -> None:
        """Say that S3 is away: by the first rank, and where no output of a program is disturbed."""
        if os.environ.get("RANK", "0") == "0":
            print(
                f"{WARNING}S3 does not answer ({what}). It is asked again for {self.patience.seconds:g} s.",
                file=sys.stderr,
                flush=True,
            )

    def _ask(self, operation: str, doing: str, given: Mapping[str, Any]) -> Any:
        """One attempt; raises as `_attempt` does."""
        body: Any = given.get("Body")
        if hasattr(body, "seek"):
            body.seek(0)
        key = given.get("Key", "")
        return self._attempt(doing, key, lambda client: getattr(client, operation)(Bucket=self.bucket, **given))

    def _attempt(self, doing: str, key: str, ask: Callable[[Any], T]) -> T:
        """
        Raises:
            _PassingError: it may be made again; and what `call` raises.
        """
        import urllib3.exceptions
        from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError
        from botocore.parsers import ResponseParserError

        client = self._opened()
        try:
            answer = ask(client)
        except ClientError as error:
            raise self._refused(doing, key, error.response) from error
        except (ConnectionError, HTTPClientError, ResponseParserError, urllib3.exceptions.HTTPError) as error:
            if not self._reached and _is_wrong_address(error):
                raise InputError(_how_to_set_up(f"{error} ({_reason(error)})")) from error
            raise _PassingError(_reason(error)) from error
        except BotoCoreError as error:  # no credentials, or none that can be renewed
            message = _how_to_set_up(error)
            raise DeniedError(message) if self._reached else InputError(message) from error
        self._reached = True
        return answer

    def _opened(self) -> Any:
        if os.getpid() != self._process:  # two processes would talk over one connection
            raise RuntimeError("S3 was used before this process was forked; open the place after the fork")
        with self._lock:
            if self._made is None:
                self._made = self._open()
            return self._made

    def _open(self) -> Any:
        import botocore.session
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        logger = logging.getLogger("botocore")
        if logger.level == logging.NOTSET:  # who wants to know where credentials were found can say so
            logger.setLevel(logging.WARNING)
        config = Config(
            retries={"mode": "standard", "total_max_attempts": 1},
            connect_timeout=self.patience.connect_seconds,
            read_timeout=self.patience.stall_seconds,
            max_pool_connections=2 * CONNECTIONS,  # something else may be under way beside a transfer
            request_checksum_calculation="when_required",  # each write brings its own
            response_checksum_validation="when_required",  # whoever reads compares with the manifest
        )
        region = os.environ.get("AWS_REGION") or None  # which SageMaker sets, and botocore does not read
        try:
            session = botocore.session.get_session()
            session.register_component("data_loader", _descriptions())
            client = session.create_client("s3", region_name=region, config=config)
            if client.meta.endpoint_url.startswith("https:"):
                # Over TLS the content needs no hash of its own against others; its CRC-32 guards it against damage.
                config = config.merge(Config(s3={"payload_signing_enabled": False}))
                client = session.create_client("s3", region_name=region, config=config)
        except (BotoCoreError, ValueError) as error:
            raise InputError(_how_to_set_up(error)) from error
        return client

    def _uri(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}"

    def _refused(self, doing: str, key: str, answer: Mapping[str, Any]) -> Exception:
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        code, text = answer["Error"]["Code"], answer["Error"].get("Message", "")
        reason = f"{status} {text}" if code == str(status) else f"{status} {code} ({text})"
        if (status >= 500 and status not in _NEVER) or status == 429 or code in _PASSING:
            return _PassingError(reason)
        message = f"S3 does not {doing} {self._uri(key)}: {reason}"
        if code == "NoSuchBucket":
            return self._mendable(ServiceError(message, status=status))
        if status == 404:
            return NotThereError(message, status=status)
        if code in _CREDENTIALS or status in (401, 403):
            return self._mendable(DeniedError(message, status=status))
        return ServiceError(message, status=status)

    def _mendable(self, error: ServiceError) -> Exception:
        """Before anything has worked it is the user's to mend; later on it is one failure among others."""
        if self._reached:
            return error
        return UnusableError(f"{error}. {self._needs}", status=error.status)


@functools.cache
def _descriptions() -> Any:
    """What reads botocore's descriptions of services and keeps them: most of the work of opening a client."""
    import botocore.session

    return botocore.session.get_session().get_component("data_loader")


def _content(answer: Mapping[str, Any], into: memoryview | None) -> memoryview:
    """The content that follows an answer, in the buffer if one is given."""
    import urllib3.exceptions
    from botocore.exceptions import HTTPClientError, IncompleteReadError

    size, body = answer["ContentLength"], answer["Body"]
    view = memoryview(bytearray(size)) if into is None else into
    filled = 0
    try:
        if size != len(view):  # the whole object, though a part was asked for
            raise IncompleteReadError(actual_bytes=size, expected_bytes=len(view))
        while filled < len(view):
            filled += body.readinto(view[filled : filled + _PIECE])
    except (IncompleteReadError, HTTPClientError, urllib3.exceptions.HTTPError) as error:
        raise _PassingError(_reason(error)) from error
    finally:
        body.close()
    return view


def _is_wrong_address(error: Exception) -> bool:
    """True where nobody has that name, or a stranger answers to it: a service that is away has both right."""
    inner: BaseException | None = getattr(error, "kwargs", {}).get("error")
    if "CERTIFICATE_VERIFY_FAILED" in str(inner):
        return True
    while inner is not None and not isinstance(inner, socket.gaierror):
        inner = inner.__cause__ or inner.__context__
    return inner is not None and inner.errno == socket.EAI_NONAME


def _reason(error: Exception) -> str:
    """What went wrong, without what a secret may be in."""
    inner = getattr(error, "kwargs", {}).get("error")  # without the address that was asked
    return _without_password(f"{type(error).__name__}: {inner or error}")


def _how_to_set_up(why: object) -> str:
    return (
        f"no access to S3 as this machine is set up: {_without_password(str(why))}. Give it a role that may use the "
        "bucket, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN too, where there is one), or "
        "AWS_PROFILE; another service than AWS's is named by AWS_ENDPOINT_URL_S3, like https://minio.example:9000."
    )


def _without_password(text: str) -> str:
    return re.sub(r"://[^/@\s]*@", "://...@", text)
