"""One request to S3: with which settings, how often it is made, and what is said when it is not done."""

from __future__ import annotations

import logging
import math
import random
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from drivetrain.aws import s3
from drivetrain.aws.s3 import (
    Client,
    DeniedError,
    NotThereError,
    Patience,
)
from drivetrain.base import stopping
from drivetrain.base.errors import InputError
from drivetrain.base.stopping import AwayError
from drivetrain.training.checkpointing.places._s3_objects import Objects
from tests.faults.harness.s3_proxy import S3Proxy

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}
NO_FILES = {"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (KEYS | NO_FILES).items():
        monkeypatch.setenv(name, value)


class Answers:
    """Takes the service's place: a request is kept, and the next answer given, as boto3's own tests do it."""

    def __init__(self, client: Client, *answers: tuple[int, str]) -> None:
        self.ahead = list(answers)
        self.requests: list[Any] = []
        client._opened().meta.events.register("before-send.s3", self._answer)

    def _answer(self, request: Any, **_: Any) -> Any:
        from botocore.awsrequest import AWSResponse

        self.requests.append(request)
        status, code = self.ahead.pop(0)
        content = f"<Error><Code>{code}</Code><Message>No.</Message></Error>".encode() if code else b""
        return AWSResponse(request.url, status, {"ETag": "tag"}, _Raw(content))


class _Raw:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._content


@pytest.mark.parametrize(
    ("bucket", "environment", "address"),
    [
        ("some", {}, "https://some.s3.amazonaws.com/a"),
        ("some", {"AWS_DEFAULT_REGION": "eu-west-1"}, "https://some.s3.eu-west-1.amazonaws.com/a"),
        ("some", {"AWS_REGION": "cn-north-1"}, "https://some.s3.cn-north-1.amazonaws.com.cn/a"),
        ("some.one", {"AWS_REGION": "eu-west-1"}, "https://s3.eu-west-1.amazonaws.com/some.one/a"),
        ("some", {"AWS_ENDPOINT_URL": "https://minio:9000"}, "https://minio:9000/some/a"),
        ("some", {"AWS_ENDPOINT_URL": "https://a", "AWS_ENDPOINT_URL_S3": "http://b"}, "http://b/some/a"),
    ],
)
def test_the_endpoint_and_style_of_a_bucket(
    bucket: str, environment: dict[str, str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content goes as it is, with one checksum; its hash, which costs more, only where there is no TLS."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    objects = Objects(bucket)
    answers = Answers(objects.client, (200, ""))
    assert objects.put("a", memoryview(b"content")) == "tag"
    (request,) = answers.requests
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert request.url == address
    assert headers["content-length"] == "7"
    assert "transfer-encoding" not in headers and "content-encoding" not in headers
    assert [name for name in headers if name.startswith("x-amz-checksum")] == ["x-amz-checksum-crc32"]
    assert (headers["x-amz-content-sha256"] == b"UNSIGNED-PAYLOAD") is address.startswith("https")
    assert bytes(request.body.read()) == b"content"


@pytest.mark.parametrize(
    "environment", [{"AWS_ENDPOINT_URL_S3": "minio:9000"}, {"AWS_PROFILE": "no-such-one"}, {"AWS_REGION": "no such"}]
)
def test_invalid_settings_are_refused(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (value,) = environment.values()
    with pytest.raises(InputError, match=rf"no access to S3 .*{value}.*AWS_PROFILE\. .* like https://minio\.example"):
        Objects("some").list("")


@pytest.mark.slow_cases("429")
@pytest.mark.parametrize("fault", ["409", "500", "502", "503", "504", "429", "dropped", "answer lost"])
def test_retries_end(fault: str, objects: Objects, faults: Any, proxy: S3Proxy) -> None:
    objects.list("")
    faults.always = fault
    objects.client.patience = Patience(seconds=0.3)
    before = len(proxy.passed)
    with pytest.raises(AwayError, match=rf"not write s3://{objects.bucket}/a/b: given up after .* attempts") as caught:
        objects.put("a/b", b"x" * 100)
    assert not isinstance(caught.value, (FileNotFoundError, FileExistsError, PermissionError))
    assert len(proxy.passed) - before == _attempts(caught.value) > 1
    if fault.isdigit():
        assert f"the last: {fault} " in str(caught.value) and "(by a test)" in str(caught.value)


@pytest.mark.slow_cases(but=["answer cut", "stalled"])
@pytest.mark.parametrize("fault", ["stalled", "answer stalled", "answer half stalled", "answer cut"])
def test_a_stalled_or_broken_connection_is_given_up(fault: str, proxy: S3Proxy, objects: Objects, faults: Any) -> None:
    objects.put("a", b"content")
    objects.client.patience = Patience(seconds=0.3, stall_seconds=0.2)
    objects.client._made = None
    faults.always = fault
    before, began = len(proxy.passed), time.monotonic()
    with pytest.raises(AwayError, match=r"not read .*/a: given up after .* attempts; the last: .*Error") as caught:
        objects.get("a")
    assert time.monotonic() - began < 20 and len(proxy.passed) - before == _attempts(caught.value)


def _attempts(error: Exception) -> int:
    (number,) = re.findall(r"and (\d+) attempts", str(error))
    return int(number)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://name:password@127.0.0.1:1")


@pytest.mark.usefixtures("refused")
def test_an_unreachable_service() -> None:
    objects = Objects("some", patience=Patience(seconds=0.2))
    with pytest.raises(AwayError, match=r"not list s3://some/: given up after .*Connection refused") as caught:
        objects.list("")
    assert "password" not in str(caught.value)


class Hours:
    """A clock that goes on by what is slept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.after_a_pause = 1000.0, lambda: None
        monkeypatch.setattr(s3.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(s3.time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.after_a_pause()


@pytest.mark.usefixtures("refused")
def test_retries_are_limited_by_time(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """However quickly each attempt fails, and less of it once the process is told to stop."""
    clock = Hours(monkeypatch)
    objects = Objects("some")
    drawn = random.getstate()
    with pytest.raises(AwayError, match=r"given up after 1(1[89]|20)\.\d s and \d{2,3} attempts"):
        objects.list("")
    assert random.getstate() == drawn  # of a training, which resumes it
    said = capfd.readouterr().err
    assert said.count("warning: S3 does not answer (s3://some/: ") == 1 and "asked again for 120 s" in said
    told = clock.now

    def stop() -> None:
        if clock.now > told + 10:
            stopping.leave_by(told + 40)

    clock.after_a_pause = stop
    try:
        with pytest.raises(AwayError, match=r"given up after (3[89]|40)\.\d s"):
            objects.list("")
        clock.now += 10
        with pytest.raises(AwayError, match=r"given up after 0\.0 s and 1 attempts"):
            objects.list("")
    finally:
        stopping.leave_by(math.inf)


@pytest.mark.parametrize(
    ("cause", "inside"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (ssl.SSLCertVerificationError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"), "self-signed"),
    ],
)
def test_a_wrong_address_is_a_user_error(cause: Exception, inside: str) -> None:
    from botocore.exceptions import EndpointConnectionError

    objects = Objects("some")

    def fail(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://mino:9000", error=cause)

    objects.client._opened().meta.events.register("before-send.s3", fail)
    with pytest.raises(InputError, match=rf"no access to S3 .*mino.*{inside}.*AWS_ENDPOINT_URL_S3"):
        objects.list("")
    objects.client._reached, objects.client.patience = True, Patience(seconds=0.1)
    with pytest.raises(AwayError, match="given up after"):  # a network that has lost its name server
        objects.list("")


def test_the_first_refusal_is_a_user_error(objects: Objects) -> None:
    wrong = Objects("no-such-bucket-anywhere")
    with pytest.raises(InputError, match=r"not list s3://no-such-bucket-anywhere/: 404 NoSuchBucket .*s3:ListBucket"):
        wrong.list("")
    with pytest.raises(NotThereError, match=rf"not read s3://{objects.bucket}/a: 404 NoSuchKey"):
        objects.get("a")  # an object that is not there is none
    with pytest.raises(NotThereError, match=rf"not read s3://{objects.bucket}/a: 404 Not Found"):
        objects.look("a")


@pytest.mark.parametrize("code", ["AccessDenied", "ExpiredToken"])
def test_a_permanent_refusal_is_not_retried(code: str) -> None:
    objects = Objects("some")
    answers = Answers(objects.client, (403, code), (204, ""), (403, code))
    with pytest.raises(InputError, match=rf"S3 does not remove s3://some/a: 403 {code} \(No\.\)\. Checkpoints at"):
        objects.delete("a")
    objects.delete("a")
    with pytest.raises(DeniedError, match=rf"S3 does not remove s3://some/b: 403 {code} \(No\.\)$"):
        objects.delete("b")
    assert len(answers.requests) == 3


def _codes_of_botocore() -> list[str]:
    """The errors that botocore's own retries take for throttling or passing, whatever their status."""
    standard = pytest.importorskip("botocore.retries.standard")
    throttled, passing = standard.ThrottledRetryableChecker, standard.TransientRetryableChecker
    return sorted({*throttled._THROTTLED_ERROR_CODES, *passing._TRANSIENT_ERROR_CODES})


@pytest.mark.parametrize("code", _codes_of_botocore())
def test_throttling_is_retried_with_any_status(code: str) -> None:
    objects = Objects("some")
    answers = Answers(objects.client, (400, code), (204, ""))
    objects.delete("a")
    assert len(answers.requests) == 2


def test_without_credentials(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(InputError, match=r"no access to S3 .*credentials\. Give it a role .*, or AWS_PROFILE"):
        objects.list("")
    objects.client._reached = True  # they are gone in the middle of a training
    with pytest.raises(DeniedError, match=r"no access to S3 .*credentials"):
        objects.list("")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("botocore", "botocore.session"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"boto3, which is not installed.*pip install 'drivetrain\[s3\]'"):
        Objects("some")


def test_boto3_is_loaded_on_use() -> None:
    code = (
        "import sys; from drivetrain.training.checkpointing.places import s3, open_place;"
        "assert not {'botocore', 'boto3', 'urllib3'} & set(sys.modules); open_place('s3://some/prefix')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_fork_gets_an_error_instead_of_shared_connections(objects: Objects) -> None:
    objects.list("")
    objects.client._process = -1
    with pytest.raises(RuntimeError, match="before this process was forked"):
        objects.list("")


def test_the_client_logs_nothing_by_itself(objects: Objects) -> None:
    """boto3's core would say where it found credentials, once a process."""
    said: list[str] = []
    handler, root = logging.Handler(), logging.getLogger()
    handler.emit = lambda record: said.append(record.getMessage())
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        logging.getLogger("tests").info("this is heard")
        objects.list("")
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert said == ["this is heard"]
