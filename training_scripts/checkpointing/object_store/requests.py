"""One request to S3: signed, sent from where the data lies, retried with growing pauses, bounded in time.

What is retried, and how long to wait: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and
https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html (exponential backoff with full jitter).
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import random
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from urllib.parse import quote, urlencode, urlsplit

from drivetrain.training_scripts.checkpointing.object_store.replies import Refusal, read_refusal
from drivetrain.training_scripts.checkpointing.object_store.signing import CredentialsError, Signer
from drivetrain.training_scripts.errors import InputError

_PIECE = 1 << 20  # sent at once: the time-out holds for each
_LONGEST_TEXT = 16 << 20  # of a reply that is no object
_TRANSIENT = frozenset({429, 500, 502, 503, 504})
_TRANSIENT_CODES = frozenset({"RequestTimeout", "ConditionalRequestConflict", "OperationAborted", "InternalError"})
_CREDENTIALS = frozenset(
    {"ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "TokenRefreshRequired"}
)


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a request is tried: at most `attempts` times, each ended when nothing moves for `stall_seconds`.

    With the defaults a service that never answers is given up within 110 s, so inside the time a stopped job has.
    """

    attempts: int = 5
    connect_seconds: float = 5.0
    stall_seconds: float = 20.0
    first_pause: float = 0.1
    longest_pause: float = 3.0

    def pause(self, failures: int) -> float:
        return random.uniform(0, min(self.longest_pause, self.first_pause * 2**failures))


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Message
    body: bytes
    """Empty where the content went into a buffer."""
    size: int
    """Bytes of the content."""
    sent: int
    """How often the request was sent: an earlier one may have been carried out, too."""


class ServiceError(OSError):
    """S3 did not do it, however often it was asked; the message names the operation, the object and the last reason."""

    def __init__(self, message: str, *, status: int = 0, code: str = "", sent: int = 0) -> None:
        # EREMOTEIO and not EIO: nothing is known to be wrong with what lies there.
        super().__init__(errno.EREMOTEIO, message)
        self.status = status
        self.code = code
        self.sent = sent

    def __str__(self) -> str:
        return self.strerror or ""


class DeniedError(ServiceError, PermissionError):
    """There are no credentials, or S3 refuses them the operation."""


class NotThereError(ServiceError, FileNotFoundError):
    """There is no such object, or no such upload."""


@dataclass
class Requests:
    """Sends requests to one bucket. Threads may share it."""

    bucket: str
    patience: Patience = field(default_factory=Patience)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def __post_init__(self) -> None:
        self.region = self.environment.get("AWS_REGION") or self.environment.get("AWS_DEFAULT_REGION") or "us-east-1"
        self._endpoint = self.environment.get("AWS_ENDPOINT_URL_S3") or self.environment.get("AWS_ENDPOINT_URL") or ""
        self._signer = Signer()
        self._tls = None
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._reached = False

    def send(
        self,
        method: str,
        key: str = "",
        *,
        doing: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | memoryview = b"",
        into: memoryview | None = None,
    ) -> Reply:
        """The reply with a status below 300.

        Args:
            doing: the operation, for messages: "write", "list", ...
            into: filled with the content, which must be as long.

        Raises:
            NotThereError, DeniedError: see there.
            ServiceError: refused for another reason (`status`, `code`), or not done after all attempts.
            InputError: the first request ever is refused for a reason that the user can mend.
        """
        began = time.monotonic()
        sent, failures, reason = 0, 0, ""
        moved = stale = False
        view = memoryview(body).cast("B")
        while failures < self.patience.attempts:
            if failures:
                time.sleep(self.patience.pause(failures))
            connection, reused = self._connection()
            try:
                signed = self._signed(method, key, query or {}, headers or {}, view)
            except CredentialsError as error:
                self._give_back(connection)
                if not self._reached:
                    raise InputError(str(error)) from error
                raise DeniedError(str(error), sent=sent) from error
            sent += 1
            try:
                reply = self._once(connection, method, signed, view, into, sent)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if reused and not stale and isinstance(error, ConnectionError):
                    # The service ends connections that were idle for some time: no failure.
                    stale = True
                    self._drop_idle()
                    continue
                failures += 1
                reason = f"{type(error).__name__}: {error}"
                continue
            refusal = read_refusal(reply.status, reply.body)
            if refusal is None:
                self._reached = True
                return reply
            elsewhere = reply.headers.get("x-amz-bucket-region")
            if elsewhere and elsewhere != self.region and not moved:
                self.region, moved = elsewhere, True
                self._drop_idle()
                continue
            reason = f"{reply.status} {refusal}"
            if reply.status not in _TRANSIENT and refusal.code not in _TRANSIENT_CODES:
                raise self._refused(doing, key, reply.status, refusal, sent)
            failures += 1
        raise ServiceError(
            f"S3 did not {doing} {self._uri(key)}: given up after {failures} attempts in "
            f"{time.monotonic() - began:.1f} s; the last: {reason}",
            sent=sent,
        )

    def _once(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        signed: tuple[str, list[tuple[str, str]]],
        view: memoryview,
        into: memoryview | None,
        sent: int,
    ) -> Reply:
        target, headers = signed
        connection.timeout = self.patience.connect_seconds
        if connection.sock is None:
            connection.connect()
        assert connection.sock is not None
        connection.sock.settimeout(self.patience.stall_seconds)
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders()
        for start in range(0, len(view), _PIECE):
            connection.send(view[start : start + _PIECE])
        response = connection.getresponse()
        length = int(response.headers.get("Content-Length") or 0)
        if into is not None and response.status < 300:
            if response.status == 200 and length != len(into):
                raise http.client.HTTPException("the whole object was sent instead of the part that was asked for")
            _fill(response, into)
            body = b""
        else:
            body = response.read(_LONGEST_TEXT + 1)
            if method != "HEAD" and len(body) > _LONGEST_TEXT:
                raise http.client.HTTPException("an answer without end")
        if response.will_close:
            connection.close()
        self._give_back(connection)
        return Reply(response.status, response.headers, body, length, sent)

    def _signed(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], view: memoryview
    ) -> tuple[str, list[tuple[str, str]]]:
        scheme, host, prefix = self._address()
        target = prefix + "/" + quote(key, safe="/~")
        if query:
            target += "?" + urlencode(sorted(query.items()), quote_via=quote, safe="~")
        # Over TLS the body needs no hash of its own against others; each upload has a checksum against damage.
        body_hash = "UNSIGNED-PAYLOAD" if scheme == "https" else hashlib.sha256(view).hexdigest()
        more = {"host": host} | ({"content-length": str(len(view))} if method in ("PUT", "POST") else {})
        return target, self._signer.sign(method, target, {**headers, **more}, region=self.region, body_hash=body_hash)

    def _address(self) -> tuple[str, str, str]:
        """Scheme, host (with port) and the path before the key."""
        if self._endpoint:
            parts = urlsplit(self._endpoint)
            if parts.scheme not in ("http", "https") or not parts.netloc:
                raise InputError(
                    f"AWS_ENDPOINT_URL is {self._endpoint!r}; it has to be like https://minio.example:9000"
                )
            return parts.scheme, parts.netloc, f"{parts.path.rstrip('/')}/{self.bucket}"
        domain = "amazonaws.com.cn" if self.region.startswith("cn-") else "amazonaws.com"
        if "." in self.bucket:  # the service's certificate holds for one label before the domain
            return "https", f"s3.{self.region}.{domain}", f"/{self.bucket}"
        return "https", f"{self.bucket}.s3.{self.region}.{domain}", ""

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._idle:
                return self._idle.pop(), True
        scheme, host, _ = self._address()
        if scheme == "http":
            return http.client.HTTPConnection(host), False
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=self.environment.get("AWS_CA_BUNDLE") or None)
        proxy = self._proxy(host)
        if not proxy:
            return http.client.HTTPSConnection(host, context=self._tls), False
        connection = http.client.HTTPSConnection(proxy, context=self._tls)
        connection.set_tunnel(host)
        return connection, False

    def _proxy(self, host: str) -> str:
        # (pyright knows no proxy_bypass_environment, which Python documents beside the other.)
        from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

        proxies = getproxies_environment()
        if "https" not in proxies or proxy_bypass_environment(host, proxies):
            return ""
        return urlsplit(proxies["https"]).netloc or proxies["https"]

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        if connection.sock is not None:
            with self._lock:
                self._idle.append(connection)

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _uri(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}"

    def _refused(self, doing: str, key: str, status: int, refusal: Refusal, sent: int) -> Exception:
        message = f"S3 does not {doing} {self._uri(key)}: {status} {refusal}"
        if refusal.code == "NoSuchBucket":
            return self._mendable(ServiceError(message, status=status, code=refusal.code, sent=sent))
        if status == 404:
            return NotThereError(message, status=status, code=refusal.code, sent=sent)
        if refusal.code in _CREDENTIALS or status in (401, 403):
            return self._mendable(DeniedError(message, status=status, code=refusal.code, sent=sent))
        return ServiceError(message, status=status, code=refusal.code, sent=sent)

    def _mendable(self, error: ServiceError) -> Exception:
        """Before anything has worked it is the user's to mend; later on it is one failure among others."""
        if self._reached:
            return error
        return InputError(
            f"{error}. Checkpoints at s3://{self.bucket} need a bucket that is there and s3:ListBucket, s3:GetObject, "
            "s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload, s3:ListBucketMultipartUploads on it."
        )


def _fill(response: http.client.HTTPResponse, into: memoryview) -> None:
    filled = 0
    while filled < len(into):
        count = response.readinto(into[filled:])
        if not count:
            raise http.client.IncompleteRead(b"", len(into) - filled)
        filled += count
    if response.read(1):
        raise http.client.HTTPException("more was sent than was asked for")
