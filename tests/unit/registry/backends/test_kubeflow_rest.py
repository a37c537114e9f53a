"""What stands at the address of a registry: a page to log in, another service, a server with a fault that stays."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.registry.backends import _kubeflow_rest
from drivetrain.registry.backends.kubeflow import KubeflowRegistry
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import RegistryError


class Recorded(BaseHTTPRequestHandler):
    seen: list[tuple[str, str | None]]
    status = 200
    place = ""
    answer = b'{"items": [], "nextPageToken": "", "pageSize": 200, "size": 0}'

    def any(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append((self.command, self.headers.get("Authorization")))
        self.send_response_only(self.status)
        if self.place:
            self.send_header("Location", self.place)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    do_GET = do_POST = any  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """No line a request."""


def serving() -> Iterator[tuple[str, type[Recorded]]]:
    class Handler(Recorded):
        seen: list[tuple[str, str | None]] = []  # noqa: RUF012

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", Handler
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, type[Recorded]]]:
    monkeypatch.setattr(_kubeflow_rest, "FIRST_PAUSE", 0.001)
    yield from serving()


@pytest.fixture
def another() -> Iterator[tuple[str, type[Recorded]]]:
    yield from serving()


def test_the_pod_token_is_sent_and_reread(
    recorded: tuple[str, type[Recorded]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, handler = recorded
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(RegistryError, match="KF_PIPELINES_SA_TOKEN_PATH cannot be read"):
        KubeflowRegistry(address).groups()
    (tmp_path / "token").write_text("secret\n")
    assert KubeflowRegistry(address).groups() == []
    assert handler.seen == [("GET", "Bearer secret")]


@pytest.mark.parametrize("token", ["s3cret\nmore", "s3cret\x00", "s3cret\tmore", "s3crét", "s3cret more", "", "\n"])
def test_an_invalid_token_is_reported_without_showing_it(
    token: str, recorded: tuple[str, type[Recorded]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, handler = recorded
    (tmp_path / "token").write_text(token)
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(RegistryError, match="holds no token") as caught:
        KubeflowRegistry(address).champion("digits")
    assert "s3cr" not in str(caught.value) and handler.seen == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(
    status: int,
    recorded: tuple[str, type[Recorded]],
    another: tuple[str, type[Recorded]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page to log in would get the token of the pod."""
    address, handler = recorded
    elsewhere, other = another
    handler.status, handler.place = status, f"{elsewhere}/dex/auth?state=abc"
    (tmp_path / "token").write_text("secret")
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "token"))
    registry = KubeflowRegistry(address)
    for call in (
        lambda: registry.champion("digits"),
        lambda: registry.register("digits", "0" * 64, ModelRecord()),
    ):
        with pytest.raises(RegistryError) as caught:
            call()
        assert f"{address} redirects to {elsewhere} ({status})" in str(caught.value)
        assert "abc" not in str(caught.value)
    assert other.seen == [] and len(handler.seen) == 2


@pytest.mark.parametrize("answer", [b"<html>sign in</html>", b"[1]", b"\xff", b"{}", b"[" * 100_000])
def test_a_server_that_is_no_registry_is_reported_at_once(recorded: tuple[str, type[Recorded]], answer: bytes) -> None:
    address, handler = recorded
    handler.answer = answer
    with pytest.raises(RegistryError, match="did not answer as Kubeflow Model Registry does") as caught:
        KubeflowRegistry(address).champion("digits")
    assert address in str(caught.value) and "a page to log in" in str(caught.value) and len(handler.seen) == 1


STAY = [
    "error saving model version: Error 1406 (22001): Data too long for column 'name' at row 1",
    "error creating property "
    + "x" * 300
    + ": Error 1153 (08S01): Got a packet bigger than 'max_allowed_packet' bytes",
    "error saving registered model: ERROR: value too long for type character varying(255) (SQLSTATE 22001)",
]


@pytest.mark.parametrize("message", STAY)
def test_a_permanent_failure_is_not_retried(message: str, recorded: tuple[str, type[Recorded]]) -> None:
    address, handler = recorded
    handler.status = 500
    handler.answer = ('{"code": "Internal Server Error", "message": "' + message + '"}').encode()
    with pytest.raises(InputError, match="does not take it") as caught:
        KubeflowRegistry(address).champion("digits")
    assert len(handler.seen) == 1 and len(str(caught.value)) < 300
    assert message.rpartition(":")[2][-30:] in str(caught.value)


def test_a_model_found_twice_is_an_error_and_not_absent(recorded: tuple[str, type[Recorded]]) -> None:
    address, handler = recorded
    handler.status = 404
    handler.answer = b'{"code": "Not Found", "message": "multiple registered models found for name=a: not found"}'
    with pytest.raises(RegistryError, match="multiple registered models found"):
        KubeflowRegistry(address).champion("digits")
