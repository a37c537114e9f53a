"""A TCP port that is kept for somebody who will listen on it."""

from __future__ import annotations

import socket


def held_port(address: str = "127.0.0.1") -> socket.socket:
    """A free TCP port, held by a bound socket that does not listen; `getsockname()[1]` names it.

    With SO_REUSEADDR on both sides Linux lets a program's own server bind and listen beside it, while the kernel gives
    the port to nobody else who asks for any free one.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((address, 0))
    return held
