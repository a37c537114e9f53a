"""What the service did though its answer was lost on the way, with botocore's own tries of a call."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.retries.standard import ExponentialBackoff

from drivetrain.base.errors import UserError
from drivetrain.deploying.applying import HalfDoneError
from drivetrain.targets.sagemaker.account import ATTEMPTS, Account
from drivetrain.targets.sagemaker.deploy import objects
from drivetrain.targets.sagemaker.deploy.deployed import APPLIED
from drivetrain.targets.sagemaker.refusals import ServiceError
from tests.unit.targets.sagemaker.deploy.conftest import Place, definition


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExponentialBackoff, "delay_amount", lambda self, context: 0.0)
    monkeypatch.setattr(objects, "LOOKS_AGAIN", (0.0, 0.0))


def lose(account: Account, operation: str, times: int) -> None:
    """Let the answers to the first calls of an operation be lost: the service has done them."""
    session = account._client("sagemaker")._endpoint.http_session
    send: Callable[[Any], Any] = session.send
    left = [times]

    def sent(request: Any) -> Any:
        answer = send(request)
        target = request.headers.get("X-Amz-Target", b"")
        if (target.decode() if isinstance(target, bytes) else target).endswith(f".{operation}") and left[0]:
            left[0] -= 1
            raise ReadTimeoutError(endpoint_url=request.url)
        return answer

    session.send = sent


def test_a_pipeline_created_with_a_lost_answer_is_rolled_back(place: Place) -> None:
    wanted = place.wanted()
    lose(place.account, "CreatePipeline", ATTEMPTS)
    with pytest.raises(HalfDoneError, match=r"cannot be reached(.|\n)*Taken back: the new pipeline\."):
        place.apply(wanted)
    assert not place.state()["pipelines"]
    place.apply(wanted)
    assert place.plan(wanted).is_empty


def test_an_update_whose_answer_is_lost_once_is_no_edit_of_somebody_else(place: Place) -> None:
    place.apply(place.wanted())
    second = place.wanted(definition=definition("ml.m5.2xlarge"))
    lose(place.account, "UpdatePipeline", 1)
    place.apply(second)
    deployed = place.deployed()
    assert deployed is not None and (deployed.text, deployed.tags[APPLIED]) == (second.text, second.sha256)
    assert place.plan(place.wanted(definition=definition("ml.m5.4xlarge"))).refusal is None


def test_an_update_that_never_answers_is_rolled_back(place: Place) -> None:
    place.apply(place.wanted())
    before = place.state()["pipelines"]
    lose(place.account, "UpdatePipeline", ATTEMPTS)
    with pytest.raises(HalfDoneError, match=r"Taken back: the pipeline"):
        place.apply(place.wanted(definition=definition("ml.m5.2xlarge")))
    assert place.state()["pipelines"] == before


@contextmanager
def answering(*answers: bytes) -> Generator[str]:
    """A server that gives each connection the next answer, and then closes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for answer in answers:
                connection, _ = server.accept()
                with connection, connection.makefile("rb") as asked:
                    length = 0
                    for line in iter(asked.readline, b"\r\n"):
                        name, _, value = line.partition(b":")
                        length = int(value) if name.lower() == b"content-length" else length
                        if name.lower() == b"expect":
                            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                    asked.read(length)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)
        assert not thread.is_alive(), "an answer was not asked for"


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Account]:
    def account(endpoint: str) -> Account:
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
        }.items():
            monkeypatch.setenv(name, value)
        return Account("us-east-1")

    return account


def test_an_object_that_breaks_off_is_one_error(at: Callable[[str], Account]) -> None:
    cut = b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nETag: "x"\r\nConnection: close\r\n\r\n{"a"'
    with answering(cut) as endpoint, pytest.raises(ServiceError, match=r"cannot be reached for s3://bucket/key"):
        objects.get_text(at(endpoint), "s3://bucket/key")


CONFLICT = b"<Error><Code>ConditionalRequestConflict</Code><Message>Conflict</Message></Error>"
BUSY = b"HTTP/1.1 409 Conflict\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(CONFLICT), CONFLICT)
DONE = b'HTTP/1.1 200 OK\r\nETag: "x"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'


def test_a_write_that_meets_another_is_made_again(at: Callable[[str], Account]) -> None:
    with answering(BUSY, BUSY, DONE) as endpoint:
        assert objects.put_once(at(endpoint), "s3://bucket/key", b"1", "00" * 32)
    with (
        answering(BUSY, BUSY, BUSY) as endpoint,
        pytest.raises(ServiceError, match="being written by another process at the same time"),
    ):
        objects.put_once(at(endpoint), "s3://bucket/key", b"1", "00" * 32)


def test_an_invalid_endpoint_is_one_error(at: Callable[[str], Account]) -> None:
    with pytest.raises(UserError, match=r"Invalid endpoint: localhost:4566\. Is AWS_ENDPOINT_URL right\?"):
        at("localhost:4566").call("sagemaker", "list_pipelines", about="the pipelines")
