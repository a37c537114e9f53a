"""One request: where it goes, how it is signed, how often it is made."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from drivetrain.training_scripts.checkpointing.object_store.objects import Objects
from drivetrain.training_scripts.checkpointing.object_store.requests import (
    DeniedError,
    NotThereError,
    Patience,
    Requests,
    ServiceError,
)
from drivetrain.training_scripts.errors import InputError
from tests.faults.harness.s3_proxy import S3Proxy

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("bucket", "environment", "address"),
    [
        ("some", {}, ("https", "some.s3.us-east-1.amazonaws.com", "")),
        ("some", {"AWS_DEFAULT_REGION": "eu-west-1"}, ("https", "some.s3.eu-west-1.amazonaws.com", "")),
        ("some", {"AWS_REGION": "cn-north-1"}, ("https", "some.s3.cn-north-1.amazonaws.com.cn", "")),
        ("some.one", {"AWS_REGION": "eu-west-1"}, ("https", "s3.eu-west-1.amazonaws.com", "/some.one")),
        ("some", {"AWS_ENDPOINT_URL": "https://minio:9000"}, ("https", "minio:9000", "/some")),
        (
            "some",
            {"AWS_ENDPOINT_URL": "https://a", "AWS_ENDPOINT_URL_S3": "http://b/c/"},
            ("http", "b", "/c/some"),
        ),
    ],
)
def test_where_a_bucket_is_asked(bucket: str, environment: dict[str, str], address: tuple[str, str, str]) -> None:
    assert Requests(bucket, environment=environment)._address() == address


def test_an_endpoint_that_is_none() -> None:
    with pytest.raises(InputError, match=r"AWS_ENDPOINT_URL is 'minio:9000'; it has to be like https://"):
        Requests("some", environment={"AWS_ENDPOINT_URL": "minio:9000"})._address()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("key", ["a/b", "späte r+=%&~*'().txt", ""])
def test_signatures_are_those_that_botocore_makes(scheme: str, key: str) -> None:
    """Our test server looks at none; the service does."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    requests = Requests("some", environment={"AWS_ENDPOINT_URL": f"{scheme}://there:9000", "AWS_REGION": "eu-west-1"})
    query = {"partNumber": "7", "uploadId": "a b/+=", "prefix": "ü/"}
    target, signed = requests._signed("PUT", key, query, {"x-amz-meta-a": "b"}, memoryview(b"body"))
    headers = {name.lower(): value for name, value in signed}
    oracle = S3SigV4Auth(Credentials("testing", "secret"), "s3", "eu-west-1")
    authorization = headers.pop("authorization")
    request = AWSRequest("PUT", f"{scheme}://there:9000{target}", headers=headers, data=b"body")
    request.context["timestamp"] = headers["x-amz-date"]
    expected = oracle.signature(oracle.string_to_sign(request, oracle.canonical_request(request)), request)
    assert authorization.rpartition("Signature=")[2] == expected
    assert (headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD") is (scheme == "https")


@pytest.mark.parametrize("fault", ["500", "502", "503", "504", "429", "dropped", "answer lost"])
def test_there_is_an_end(fault: str, objects: Objects, faults: Any, proxy: S3Proxy) -> None:
    objects.list("")
    faults.always = fault
    before = len(proxy.passed)
    with pytest.raises(
        ServiceError, match=rf"not write s3://{objects.bucket}/a/b: given up after 3 attempts"
    ) as caught:
        objects.put("a/b", b"x" * 100)
    assert not isinstance(caught.value, (FileNotFoundError, FileExistsError, PermissionError))
    # At most one more than the attempts: the connection that was there may have been closed.
    assert 3 <= len(proxy.passed) - before <= 4
    assert caught.value.sent == len(proxy.passed) - before
    if fault.isdigit():
        assert f"the last: {fault} Injected (by a test)" in str(caught.value)


@pytest.mark.parametrize("fault", ["stalled", "answer stalled"])
def test_a_service_that_stands_still_is_left(fault: str, proxy: S3Proxy, objects: Objects, faults: Any) -> None:
    objects.requests.patience = Patience(attempts=2, stall_seconds=0.2, first_pause=0.001)
    faults.always = fault
    began = time.monotonic()
    with pytest.raises(ServiceError, match=r"given up after 2 attempts in .* TimeoutError"):
        objects.get("a")
    assert time.monotonic() - began < 20 and len(proxy.passed) == 2


def test_a_service_that_is_not_there() -> None:
    environment = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    requests = Requests("some", Patience(attempts=2, first_pause=0.001), environment)
    with pytest.raises(ServiceError, match=r"not list s3://some/: given up after 2 attempts .*ConnectionRefusedError"):
        requests.send("GET", doing="list")


def test_the_first_refusal_is_the_users_to_mend(objects: Objects) -> None:
    wrong = Objects("no-such-bucket-anywhere")
    with pytest.raises(InputError, match=r"not list s3://no-such-bucket-anywhere/: 404 NoSuchBucket .*s3:ListBucket"):
        wrong.list("")
    with pytest.raises(NotThereError):  # an object that is not there is none
        objects.get("a")


def test_without_credentials(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    with pytest.raises(InputError, match=r"no credentials for S3: .*Give this machine a role .*, or AWS_PROFILE"):
        objects.list("")
    objects.requests._reached = True  # they are gone in the middle of a training
    with pytest.raises(DeniedError, match="no credentials for S3"):
        objects.list("")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "awscrt", None)
    with pytest.raises(InputError, match=r"awscrt, which is not installed.*pip install 'drivetrain\[s3\]'"):
        Requests("some")


def test_a_fork_is_told_instead_of_waiting_for_ever(objects: Objects) -> None:
    objects.list("")
    objects.requests._signer._process = -1
    with pytest.raises(RuntimeError, match="before this process was forked"):
        objects.list("")


@contextmanager
def answering(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, list[str]]]:
    """A server that gives these answers, and the regions that requests were signed for."""
    ahead, regions = list(answers), list[str]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            regions.append(self.headers["Authorization"].split("/")[2])
            status, headers, body = ahead.pop(0)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """No line a request."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False  # connections are kept by the client
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", regions
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_bucket_of_another_region_is_found() -> None:
    moved = (301, {"x-amz-bucket-region": "eu-central-1"}, b"<Error><Code>PermanentRedirect</Code></Error>")
    with answering(moved, (200, {}, b"there"), (200, {}, b"again")) as (endpoint, regions):
        requests = Requests("some", environment={"AWS_ENDPOINT_URL": endpoint})
        assert requests.send("GET", "a", doing="read").body == b"there"
        assert requests.send("GET", "a", doing="read").body == b"again"
    assert regions == ["us-east-1", "eu-central-1", "eu-central-1"]


@pytest.mark.parametrize("code", ["AccessDenied", "ExpiredToken"])
def test_a_refusal_for_good_is_not_repeated(code: str) -> None:
    refusal = (403, {}, f"<Error><Code>{code}</Code><Message>No.</Message></Error>".encode())
    with answering((200, {}, b"there"), refusal) as (endpoint, regions):
        requests = Requests("some", environment={"AWS_ENDPOINT_URL": endpoint})
        requests.send("GET", "a", doing="read")
        with pytest.raises(DeniedError, match=rf"S3 does not read s3://some/b: 403 {code} \(No\.\)"):
            requests.send("GET", "b", doing="read")
    assert len(regions) == 2


def test_more_or_less_than_was_asked_for_is_no_answer() -> None:
    patience = Patience(attempts=2, first_pause=0.001)
    short = (206, {"Content-Length": "10"}, b"12345")
    long = (206, {}, b"12345678901")
    whole = (200, {}, b"12345678901")
    for wrong in (short, long, whole):
        last = {**wrong[1], "Connection": "close"}
        with answering((wrong[0], last, wrong[2]), (206, {}, b"1234567890")) as (endpoint, regions):
            requests = Requests("some", patience, {"AWS_ENDPOINT_URL": endpoint})
            into = bytearray(10)
            requests.send("GET", "a", doing="read", into=memoryview(into))
            assert into == b"1234567890" and len(regions) == 2
