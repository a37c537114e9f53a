"""HTTP answers that end in time: a time-out of a socket is one for each piece, and pieces may come for ever."""

from __future__ import annotations

import time
import urllib.request
from http.client import HTTPConnection, HTTPResponse
from io import BufferedReader, RawIOBase
from socket import socket
from typing import Any


def handlers(seconds: float) -> tuple[urllib.request.BaseHandler, ...]:
    """For an opener of urllib: an answer that has not ended after `seconds` is a TimeoutError."""

    class Connecting:
        """Makes do_open use connections whose answers are bounded."""

        def do_open(self, http_class: Any, req: urllib.request.Request, **given: Any) -> HTTPResponse:
            def connection(host: str, **more: Any) -> HTTPConnection:
                made: HTTPConnection = http_class(host, **more)
                made.response_class = respond  # type: ignore[assignment]
                return made

            parent: Any = super()
            return parent.do_open(connection, req, **given)

    def respond(sock: socket, *given: Any, **more: Any) -> HTTPResponse:
        response = HTTPResponse(sock, *given, **more)
        response.fp.close()  # nothing has been read of it
        response.fp = BufferedReader(_Pieces(sock, seconds))
        return response

    class Http(Connecting, urllib.request.HTTPHandler):
        pass

    class Https(Connecting, urllib.request.HTTPSHandler):
        pass

    return Http(), Https()


class _Pieces(RawIOBase):
    """A stream of a socket's bytes that raises TimeoutError after a deadline."""

    def __init__(self, sock: socket, seconds: float) -> None:
        self._sock, self._file = sock, sock.makefile("rb", buffering=0)
        self._seconds, self._until = seconds, time.monotonic() + seconds
        self._each = sock.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        left = self._until - time.monotonic()
        if left > 0:
            self._sock.settimeout(left if self._each is None else min(left, self._each))
            try:
                return self._file.readinto(buffer)
            except TimeoutError:
                if time.monotonic() < self._until:
                    raise
        raise TimeoutError(f"its answer did not end within {self._seconds:g} s")

    def close(self) -> None:
        self._file.close()
        super().close()
