"""What stands between a client and an S3 server on this machine and breaks what passes, request by request."""

from __future__ import annotations

import collections
import contextlib
import http.client
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

# Never carried out: refused with a status; not answered; the connection lost in the middle of the body.
REFUSED = ("409", "429", "500", "502", "503", "504")
NOT_DONE = (*REFUSED, "stalled", "dropped")
# Carried out all the same: the answer lost, in part, late for good at its start or in its middle, or a failure instead.
DONE = ("answer lost", "answer cut", "answer stalled", "answer half stalled", "done and 500")
ALL = NOT_DONE + DONE


@dataclass(frozen=True)
class Passing:
    """A request; `target` is path and query."""

    number: int
    method: str
    target: str


class S3Proxy:
    """Asks `plan` about each request: "" lets it pass, or one of ALL."""

    def __init__(self, upstream: str, plan: Callable[[Passing], str]) -> None:
        self._upstream = upstream.removeprefix("http://")
        self._plan = plan
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._arrived = threading.Condition(self._lock)
        self.passed: list[tuple[Passing, str]] = []
        """Each request that came, with what was done to it, in this order."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):  # the client has given up
                    super().handle()

            def log_message(self, format: str, *args: object) -> None:
                """No line a request."""

            def any(self) -> None:
                proxy._handle(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = any  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="s3-proxy", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    def wait_for(self, happened: Callable[[], bool], seconds: float) -> bool:
        """Until that holds, which is asked again after each request that came, and when it is told to."""
        with self._arrived:
            return self._arrived.wait_for(happened, seconds)

    def look_again(self) -> None:
        with self._arrived:
            self._arrived.notify_all()

    def most_tries(self, *, leave_out: str) -> tuple[int, str]:
        """How often the request came that came most often, of those that write; and which one it was.

        Args:
            leave_out: the end of a target that several clients wrote to.
        """
        with self._lock:
            counts = collections.Counter(
                f"{passing.method} {passing.target}"
                for passing, _ in self.passed
                if passing.method in ("PUT", "POST") and not passing.target.endswith(leave_out)
            )
        request, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
        return count, request

    def _handle(self, client: BaseHTTPRequestHandler) -> None:
        with self._arrived:
            passing = Passing(len(self.passed), client.command, client.path)
            fault = self._plan(passing)
            self.passed.append((passing, fault))
            if fault != "answer stalled":
                self._arrived.notify_all()
        length = int(client.headers.get("Content-Length") or 0)
        if fault == "dropped":
            client.rfile.read(length // 2)
            return _reset(client)
        body = client.rfile.read(length)
        if fault in REFUSED:
            return _refuse(client, int(fault), "ConditionalRequestConflict" if fault == "409" else "Injected")
        if fault == "stalled":
            self._released.wait()
            return _reset(client)
        status, headers, content = self._forward(client, body)
        if fault == "answer lost":
            return _reset(client)
        if fault == "answer stalled":
            with self._arrived:
                self._arrived.notify_all()
            self._released.wait()
            return _reset(client)
        if fault == "done and 500":
            return _refuse(client, 500, "InternalError")
        if fault not in ("answer cut", "answer half stalled"):
            return _answer(client, status, headers, content)
        _answer_in_part(client, status, headers, content)
        if fault == "answer half stalled":
            self._released.wait()
        _reset(client)

    def _forward(self, client: BaseHTTPRequestHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection(self._upstream, timeout=60)
        try:
            upstream.putrequest(client.command, client.path, skip_host=True, skip_accept_encoding=True)
            for name, value in client.headers.items():
                upstream.putheader(name, value)
            upstream.endheaders(body)
            answer = upstream.getresponse()
            content = answer.read()
            left_out = ("connection", "transfer-encoding", "content-length")
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in left_out]
            length = answer.getheader("Content-Length") if client.command == "HEAD" else str(len(content))
            return answer.status, [*headers, ("Content-Length", length or "0")], content
        finally:
            upstream.close()


def _refuse(client: BaseHTTPRequestHandler, status: int, code: str) -> None:
    content = f"<Error><Code>{code}</Code><Message>by a test</Message></Error>".encode()
    _answer(client, status, [("Content-Length", str(len(content)))], content)


def _answer(client: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
    client.send_response_only(status)
    for name, value in headers:
        client.send_header(name, value)
    client.end_headers()
    if client.command != "HEAD":
        client.wfile.write(content)


def _answer_in_part(
    client: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], content: bytes
) -> None:
    """Half of the content; without content, no end of the headers."""
    client.send_response_only(status)
    for name, value in headers:
        client.send_header(name, value)
    if content and client.command != "HEAD":
        client.end_headers()
        client.wfile.write(content[: len(content) // 2])
    else:
        client.flush_headers()
    client.wfile.flush()


def _reset(client: BaseHTTPRequestHandler) -> None:
    """End the connection as a lost one ends: without a farewell."""
    client.close_connection = True
    client.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.connection.close()
