"""The driver's server and its failures; what it does with data is tested through steps (test_transform_step.py)."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from drivetrain.base.ports import held_port
from drivetrain.targets.sagemaker.run.batch_transform import driver
from drivetrain.targets.sagemaker.run.batch_transform.driver import Server, Transform, TransformError
from drivetrain.targets.sagemaker.run.batch_transform.settings import Settings

# Serves pings, and answers each request with the word of its first argument.
SERVER = """
import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Requests(BaseHTTPRequestHandler):
    def do_GET(self):
        ping = int(sys.argv[3]) if len(sys.argv) > 3 else 200
        self.answer(ping if self.path == "/ping" else int(sys.argv[2]), b"" if self.path == "/ping" else b"no json")
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if sys.argv[1].isdigit():
            Requests.count = getattr(Requests, "count", 0) + 1
            return self.answer(int(sys.argv[1]), f"request {Requests.count}".encode())
        if sys.argv[1] == "hang up":
            return self.connection.close()
        self.answer(200, sys.argv[1].encode())
    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
HTTPServer(("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"])), Requests).serve_forever()
"""


def settings(**job: object) -> Settings:
    given = {"SplitType": "Line"}
    return Settings.of({"TransformInput": given, "TransformOutput": {"AssembleWith": "Line"}, **job})


def test_a_command_that_is_not_there_and_one_that_never_answers() -> None:
    with held_port() as held:
        port = held.getsockname()[1]
        with pytest.raises(TransformError, match="'no-such-server' could not be started: No such file"):
            Server(["no-such-server"], port)
        with pytest.raises(TransformError, match=rf"did not answer GET /ping on 127.0.0.1:{port} .* within 0 s"):
            Server([sys.executable, "-c", "import time; time.sleep(600)"], port, startup_s=0.2)
        with pytest.raises(TransformError, match="ended with 3 before it answered"):
            Server([sys.executable, "-c", "raise SystemExit(3)"], port)


@pytest.mark.parametrize("status", ["503", "204"])
def test_a_server_whose_ping_is_not_200_is_given_up(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its time is over: the clock leaps when it has answered."""
    answered: list[object] = []
    ask = Server.ask

    def asked(server: Server, *given: Any, **named: Any) -> Any:
        answered.append(ask(server, *given, **named))
        return answered[-1]

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 3600 * len(answered), sleep=time.sleep)
    monkeypatch.setattr(Server, "ask", asked)
    monkeypatch.setattr(driver, "time", clock)
    with held_port() as held:
        port = held.getsockname()[1]
        said = rf"answered GET /ping with {status}, not 200, on 127.0.0.1:{port} .* within 60 s"
        with pytest.raises(TransformError, match=said):
            Server([sys.executable, "-c", SERVER, "yes", "404", status], port, startup_s=60.0)
    assert len(answered) == 1


@pytest.mark.parametrize("status", ["404", "200"])
def test_a_server_that_says_nothing_of_itself_gets_the_defaults(status: str) -> None:
    with held_port() as held:
        server = Server([sys.executable, "-c", SERVER, "yes", status], held.getsockname()[1])
        try:
            transform = Transform(settings(), server)
            assert transform.file(b"1\n2\n3\n") == b"yes\n" and transform.requests == 1
            large = b"x" * (6 * 1024 * 1024 + 1)
            with pytest.raises(TransformError, match=r"record 1 has 6,291,457 bytes, more than MaxPayloadInMB allows"):
                transform.file(large)
            assert Transform(settings(MaxPayloadInMB=0), server).file(large) == b"yes\n"
        finally:
            server.stop()


def test_a_server_that_hangs_up_is_asked_again_and_then_given_up() -> None:
    with held_port() as held:
        server = Server([sys.executable, "-c", SERVER, "hang up", "404"], held.getsockname()[1])
        try:
            transform = Transform(settings(ModelClientConfig={"InvocationsMaxRetries": 1}), server)
            with pytest.raises(TransformError, match="request 1: the server gave no answer"):
                transform.file(b"1")
        finally:
            server.stop()


@pytest.mark.parametrize(("status", "asked"), [("400", 1), ("429", 1), ("500", 3), ("503", 3)])
def test_refused_requests_are_sent_once_and_failed_ones_repeated(status: str, asked: int) -> None:
    with held_port() as held:
        server = Server([sys.executable, "-c", SERVER, status, "404"], held.getsockname()[1])
        try:
            transform = Transform(settings(ModelClientConfig={"InvocationsMaxRetries": 2}), server)
            with pytest.raises(TransformError, match=f"request 1: the server answered {status}: request {asked}$"):
                transform.file(b"1")
        finally:
            server.stop()
