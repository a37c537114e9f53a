"""A port that is kept for somebody who will listen on it."""

from __future__ import annotations

import socket

import pytest

from drivetrain.base.ports import held_port


def test_a_reserved_port_is_exclusive_and_can_be_listened_on() -> None:
    with held_port() as held:
        port = held.getsockname()[1]
        for address in ("127.0.0.1", "127.0.0.2", ""):
            with pytest.raises(OSError, match="in use"), socket.socket() as other:
                other.bind((address, port))
            with socket.create_server((address, port)) as server:
                assert server.getsockname()[1] == port
