"""A TCP port that is reserved for a server that starts later."""

from __future__ import annotations

import socket


def held_port() -> socket.socket:
    """A TCP port, free on every address, held by a bound socket that does not listen; `getsockname()[1]` names it.

    With SO_REUSEADDR on both sides Linux lets a program's own server bind and listen beside it, while the kernel gives
    the port to no other process that asks for a free one. It is held on every address because torch's store listens on
    every address, and fails if another process has the port on one of them.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", 0))
    return held
