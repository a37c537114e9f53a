"""Jobs that run on the first host alone: it waits until the others are there, and tells them how it ended.

One TCP connection from each of the others to the first, on which the first at the end writes its exit code. A
connection that ends without one says that the first host is gone.
"""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import time
import types
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from drivetrain.training.errors import LostHostError
from drivetrain.training.launch.cluster import Cluster
from drivetrain.training.launch.job import Options
from drivetrain.training.launch.processes.parent import follows_parent
from drivetrain.training.launch.processes.supervision import Command


class Others:
    """The first host's connections to the others."""

    def __init__(self, connections: Sequence[socket.socket]) -> None:
        self._connections = connections

    def tell(self, code: int) -> None:
        for connection in self._connections:
            try:
                connection.sendall(b"%d\n" % code)
            except OSError:  # that host has gone by itself; mpirun has noticed what it lost there
                continue


@contextmanager
def first_host(cluster: Cluster, options: Options) -> Generator[Others]:
    """Wait for every other host.

    Raises:
        LostHostError: some did not come within `options.join_timeout`, or the port is taken.
    """
    connections: list[socket.socket] = []
    number = len(cluster.hosts) - 1
    if not number:
        yield Others([])
        return
    try:
        listener = socket.create_server((cluster.hosts[0], cluster.port), backlog=number)
    except OSError as error:
        raise LostHostError(
            f"cannot listen on {cluster.hosts[0]}:{cluster.port} ({error.strerror}). Give another DRIVETRAIN_PORT."
        ) from None
    came: set[int] = set()
    try:
        with listener:
            deadline = time.monotonic() + options.join_timeout
            while len(came) < number:
                listener.settimeout(max(0.1, deadline - time.monotonic()))
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    missing = ", ".join(host for index, host in enumerate(cluster.hosts) if index and index not in came)
                    raise LostHostError(f"{missing} did not come within {options.join_timeout:.0f} s.") from None
                connections.append(connection)
                connection.settimeout(10)
                try:
                    came.add(int(connection.makefile("rb").readline(20)))
                except (OSError, ValueError):  # a foreign connection to this port
                    continue
        yield Others(connections)
    finally:
        for connection in connections:
            connection.close()


class First:
    """Another host's connection to the first."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def has_ended(self) -> bool:
        """True if the first host has sent its exit code, or is gone."""
        return bool(select.select([self._connection], [], [], 0)[0])

    def wait(self, commands: Sequence[Command]) -> tuple[int | None, signal.Signals | None]:
        """Run the commands until the first host says its exit code; None where it went without a word."""
        stopped: list[signal.Signals] = []

        def stop(number: int, frame: types.FrameType | None) -> None:
            stopped.append(signal.Signals(number))

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        children = [
            subprocess.Popen(list(command), env=dict(environment), preexec_fn=follows_parent(signal.SIGTERM))
            for command, environment in commands
        ]
        try:
            while not select.select([self._connection], [], [], 1.0)[0]:
                # The first host is told to stop, too, and its mpirun stops our processes; we wait for its word.
                continue
            said = self._connection.makefile("rb").readline(20).strip()
        except ConnectionError:
            said = b""
        finally:
            for child in children:
                child.terminate()
                child.wait()
            for number, handler in before.items():
                signal.signal(number, handler)
        return (int(said) if said else None), (stopped[0] if stopped else None)


@contextmanager
def other_host(cluster: Cluster, options: Options) -> Generator[First]:
    """Come to the first host.

    Raises:
        LostHostError: it does not listen within `options.join_timeout`.
    """
    with connected(cluster.hosts[0], cluster.port, options.join_timeout) as connection:
        connection.settimeout(None)
        connection.sendall(b"%d\n" % cluster.host_index)
        yield First(connection)


def connected(host: str, port: int, seconds: float) -> socket.socket:
    """A connection to the first host, which may come up later than this one.

    Raises:
        LostHostError: it does not listen within so many seconds.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection((host, port), timeout=10)
        except OSError as error:
            if time.monotonic() > deadline:
                raise LostHostError(f"the first host does not answer at {host}:{port} ({error}).") from None
            time.sleep(0.5)
