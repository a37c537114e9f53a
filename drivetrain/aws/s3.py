"""One bucket of S3, or of a service with its protocol. Each request and each transfer has a time limit; errors name the
object.

boto3's core signs, finds endpoint, region, credentials, proxies and certificates. Its own retries are off: they count
attempts instead of time (a refused connection uses up five within seconds) and leave broken content to the caller. Only
users of s3:// locations need boto3. It is imported when such a place is opened.
"""

# botocore has no types of its own.
# pyright: basic

from __future__ import annotations

import functools
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from drivetrain.aws.refusals import (
    EXPIRED,
    THROTTLED,
    UNKNOWN_KEYS,
    DeniedError,
    NoAnswerError,
    NotThereError,
    ServiceError,
    UnusableError,
    WrongAddressError,
    how_to_set_up,
    is_wrong_address,
    reason_of,
    without_password,
)
from drivetrain.aws.session import botocore_session, region_of_job
from drivetrain.base import stopping
from drivetrain.base.errors import WARNING, InputError

CONNECTIONS = 8
"""Connections of one transfer; also the number of files that come or go at once."""
_PIECE = 1 << 20  # received at once: so much memory is needed beside the buffer
# botocore's "standard" retries these too: the service has too much to do. Some answer them with status 400.
_THROTTLED = (
    *THROTTLED,
    *("BandwidthLimitExceeded", "LimitExceededException", "ProvisionedThroughputExceededException"),
    *("TransactionInProgressException", "PriorRequestNotComplete"),
)
# Another request for the same object is under way (S3 wants this one again), or this one came too slowly.
_SAME_OBJECT = ("ConditionalRequestConflict", "OperationAborted")
_PASSING = frozenset({*_THROTTLED, *_SAME_OBJECT, "RequestTimeout", "RequestTimeoutException"})
_NEVER = frozenset({501, 505})  # of those from 500 on: what the service cannot do, now or later
_LONGEST_PAUSE_S = 2.0
_jitter = random.Random()  # a training draws from Python's own generator, and resumes it
_SILENT_S = 5.0  # an outage that is longer than this is told
_FOR_CHECKPOINTS = (
    *("s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"),
    *("s3:AbortMultipartUpload", "s3:ListBucketMultipartUploads"),
)


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a request is tried again while the service is away: `seconds`, or what a process that is told to stop
    has left (`stopping`). Each attempt ends when nothing comes for `stall_seconds`; there is at least one."""

    seconds: float = 120.0
    connect_seconds: float = 5.0
    stall_seconds: float = 20.0


class _PassingError(Exception):
    """An attempt failed in a way that passes: why."""


T = TypeVar("T")


class Client:
    """Asks for one bucket. Threads may share it; each process opens its own.

    Args:
        purpose: what the bucket is for, for messages: "checkpoints", "data".
        permissions: what is needed for it.
        endpoint: the address of another service than AWS's; $AWS_ENDPOINT_URL_S3 where it is None.

    Raises:
        InputError: boto3 is not installed.
    """

    def __init__(
        self,
        bucket: str,
        patience: Patience | None = None,
        *,
        purpose: str = "checkpoints",
        permissions: Sequence[str] = _FOR_CHECKPOINTS,
        endpoint: str | None = None,
    ) -> None:
        botocore_session(f"{purpose} at s3:// need")
        self.bucket = bucket
        self.patience = patience or Patience()
        self._endpoint = endpoint
        self._needs = (
            f"{purpose.capitalize()} at s3://{bucket} need an existing bucket and {', '.join(permissions)} on it."
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

    def read(self, key: str) -> bytes | None:
        """A small object's content; None if there is no such object."""
        try:
            return bytes(self.fetch(key)[0])
        except NotThereError:
            return None

    def pages(self, prefix: str) -> Iterator[Any]:
        """S3's answers to a listing, one by one; raises as `call` does."""
        more: dict[str, str] = {}
        while True:
            page = self.call("list_objects_v2", "list", Prefix=prefix, **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def listed(self, prefix: str) -> Iterator[Mapping[str, Any]]:
        """`Key`, `Size` and `ETag` of each object whose key begins so; raises as `call` does."""
        for page in self.pages(prefix):
            yield from page.get("Contents", ())

    def files_below(self, prefix: str, folder: Path, *, strip_slashes: bool = False) -> Iterator[tuple[str, Path]]:
        """Key and path in a folder of each object below a prefix; consoles' marks of folders are left out.

        Args:
            strip_slashes: take `prefix//name` for `prefix/name` instead of refusing it.

        Raises:
            InputError: a key leads out of the folder; and as `call` does.
        """
        for entry in self.listed(prefix):
            name = entry["Key"].removeprefix(prefix)
            if not name or name.endswith("/"):
                continue
            if strip_slashes:
                name = name.lstrip("/")
            if ".." in name.split("/") or name.startswith("/") or "\0" in name:
                raise InputError(f"{self._uri(entry['Key'])} leads out of its folder. Write keys without '..'.")
            yield entry["Key"], folder / name

    def download(self, key: str, path: Path) -> None:
        """Bring an object to a file, its parts side by side; raises as `call` does."""
        from boto3.exceptions import RetriesExceededError
        from boto3.s3.transfer import S3Transfer

        def bring(client: Any) -> None:
            try:
                S3Transfer(client).download_file(self.bucket, key, str(path))  # it writes beside it and renames
            except RetriesExceededError as error:
                raise _PassingError(reason_of(error.last_exception)) from error

        path.parent.mkdir(parents=True, exist_ok=True)
        self._patiently("read", key, lambda: self._attempt("read", key, bring))

    def download_all(self, files: Iterable[tuple[str, Path]]) -> None:
        """Bring each object to its file, several at once; raises as `call` does."""
        side_by_side(lambda file: self.download(*file), files)

    def upload(self, path: Path, key: str) -> None:
        """Write a file's content over an object, its parts side by side; raises as `call` does."""
        from boto3.exceptions import S3UploadFailedError
        from boto3.s3.transfer import S3Transfer

        def send(client: Any) -> None:
            try:
                S3Transfer(client).upload_file(str(path), self.bucket, key)
            except S3UploadFailedError as error:
                raise error.__context__ or error from None

        self._patiently("write", key, lambda: self._attempt("write", key, send))

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is fine."""
        self.call("delete_object", "remove", Key=key)

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
                        f"attempts; the last: {error}",
                        reason=str(error),
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
            if not self._reached and is_wrong_address(error):
                reason = f"{error} ({reason_of(error)})"
                raise WrongAddressError(how_to_set_up(reason), reason=without_password(reason)) from error
            raise _PassingError(reason_of(error)) from error
        except BotoCoreError as error:  # no credentials, or none that can be renewed
            kind = DeniedError if self._reached else UnusableError
            raise kind(how_to_set_up(error), reason=without_password(str(error))) from error
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
            response_checksum_validation="when_required",  # readers compare with the manifest
        )
        region = region_of_job()
        if self._endpoint and not os.environ.get("AWS_DEFAULT_REGION"):
            region = region or "us-east-1"  # a service of one's own has no regions, whatever the profile says
        try:
            session = botocore.session.get_session()
            session.register_component("data_loader", _descriptions())
            client = session.create_client("s3", region_name=region, endpoint_url=self._endpoint, config=config)
            if client.meta.endpoint_url.startswith("https:"):
                # Over TLS the content needs no hash of its own against others; its CRC-32 guards it against damage.
                config = config.merge(Config(s3={"payload_signing_enabled": False}))
                client = session.create_client("s3", region_name=region, endpoint_url=self._endpoint, config=config)
        except (BotoCoreError, ValueError) as error:
            raise UnusableError(how_to_set_up(error), reason=without_password(str(error))) from error
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
            return self._mendable(ServiceError(message, status=status, reason=reason))
        if status == 404:
            return NotThereError(message, status=status, reason=reason)
        if code in EXPIRED | UNKNOWN_KEYS or status in (401, 403):
            return self._mendable(DeniedError(message, status=status, reason=reason))
        return ServiceError(message, status=status, reason=reason)

    def _mendable(self, error: ServiceError) -> Exception:
        """Before anything has worked it is the user's to mend; later on it is one failure among others."""
        if self._reached:
            return error
        return UnusableError(f"{error}. {self._needs}", status=error.status, reason=error.reason)


def split(uri: str) -> tuple[str, str]:
    """Bucket and key of an s3:// URI."""
    bucket, _, key = uri.partition("://")[2].partition("/")
    return bucket, key


def side_by_side(move: Callable[[T], object], items: Iterable[T]) -> None:
    """Call it for each, several at once; raises what the first of them does."""
    with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="s3") as pool:
        for _ in pool.map(move, items):
            continue


@functools.cache
def _descriptions() -> Any:
    """The loader that reads botocore's descriptions of services and keeps them: most of the work of opening a
    client."""
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
        raise _PassingError(reason_of(error)) from error
    finally:
        body.close()
    return view
