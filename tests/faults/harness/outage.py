"""An S3 server that goes away for a while: each way is one in which a client meets an outage."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Callable

from drivetrain.training.launch.processes.parent import follows_parent
from tests.fixtures.weed import Weed

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Outage:
    """`begin` takes the server away, `end` brings it back, with what it held."""

    def __init__(self, weed: Weed, kind: str) -> None:
        self._weed, self.kind = weed, kind
        self._pid = 0
        self.is_on = False

    def begin(self) -> None:
        self.is_on = True
        if self.kind == "stands still":
            self._weed.send(signal.SIGSTOP)
            return
        self._weed.kill()
        if self.kind != "is gone":
            self._pid = _forked(self._weed.port, _refuse if self.kind == "says 503" else _reset)

    def end(self) -> None:
        if not self.is_on:
            return
        self.is_on = False
        if self.kind == "stands still":
            self._weed.send(signal.SIGCONT)
            return
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        self._weed.start()


KINDS = ("is gone", "stands still", "says 503", "resets")


def _forked(port: int, answer: Callable[[socket.socket], None]) -> int:
    """A process that answers on the port, which the server has left; its pid."""
    follow = follows_parent(signal.SIGKILL)
    pid = os.fork()
    if pid:
        return pid
    try:
        follow()
        listening = socket.create_server(("127.0.0.1", port), backlog=64)
        while True:
            connection, _ = listening.accept()
            with connection:
                answer(connection)
    finally:
        os._exit(1)


def _refuse(connection: socket.socket) -> None:
    connection.settimeout(5.0)
    try:
        connection.recv(1 << 20)
        connection.sendall(_BUSY)
    except OSError:
        return  # the client has given up


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
