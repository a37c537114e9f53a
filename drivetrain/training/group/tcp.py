"""A group over plain TCP connections, each between rank 0 and another rank: for processes without torch.

A message is its length (8 bytes) and its bytes; rank 0's are followed by a byte that says whether this is the answer,
or the reason that there is no answer: all ranks learn the number of a lost rank. A sender may have to wait until rank 0
takes its message. Rank 0 waits for a byte in answer to what it deals: one that ends as soon as it has its part has then
got it.
"""

from __future__ import annotations

import json
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence

from drivetrain.training.group import Group, LostRanksError

_LENGTH, _HELLO = struct.Struct(">Q"), struct.Struct(">IIII")
_MAGIC = 0x64726976
_PART, _LOST = b"P", b"L"
# Rank 0 knows who is missing, and says so to those who wait for it: they give it this much more time. [s]
_MORE_PATIENCE = 5.0
_RETRY_SECONDS = 0.05
_PIECE = 1 << 20


class TcpGroup(Group):
    """Made by `join` and `twin`."""

    def __init__(self, meeting: Meeting, connections: dict[int, socket.socket], timeout: float) -> None:
        self.rank, self.size, self.timeout = meeting.rank, meeting.size, timeout
        self._meeting, self._connections = meeting, connections

    def twin(self, timeout: float | None = None) -> Group:
        return self._meeting.group(timeout or self.timeout)

    def to_main(self, data: bytes) -> list[bytes] | None:
        if self.rank:
            self.send(data)
            return None
        others = self._receive(range(1, self.size))
        return [data, *(others[rank] for rank in range(1, self.size))]

    def deal(self, parts: Sequence[bytes] | None) -> bytes:
        if parts is None:
            return self._from_main()
        for rank in range(1, self.size):
            self._send(rank, _PART + parts[rank])
        self._receive(range(1, self.size))
        return parts[0]

    def send(self, data: bytes) -> None:
        self._send(0, data)

    def receive(self, rank: int) -> bytes:
        return self._receive([rank])[rank]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._meeting.close()

    def _from_main(self) -> bytes:
        patience = self.timeout + min(self.timeout, _MORE_PATIENCE)
        deadline = time.monotonic() + patience
        connection = self._connections[0]
        try:
            message = _read(connection, deadline)
        except TimeoutError:
            raise _missing([0], self.rank, patience) from None
        except OSError as error:
            raise _gone([0], self.rank, error) from error
        if message[:1] == _LOST:
            told = json.loads(message[1:])
            raise LostRanksError(told["ranks"], told["reason"], timed_out=told["timed_out"])
        self._send(0, b"")
        return message[1:]

    def _send(self, rank: int, data: bytes) -> None:
        connection = self._connections[rank]
        connection.settimeout(self.timeout)
        try:
            connection.sendall(_LENGTH.pack(len(data)))
            connection.sendall(data)
        except TimeoutError:
            raise self._told(_missing([rank], self.rank, self.timeout)) from None
        except OSError as error:
            if self.rank:
                self._from_main()  # rank 0 has perhaps said why, before it left
            raise self._told(_gone([rank], self.rank, error)) from error

    def _receive(self, ranks: Iterable[int]) -> dict[int, bytes]:
        """A message of each rank, in the order in which they come: one that is gone is noticed at once."""
        found: dict[int, bytes] = {}
        deadline = time.monotonic() + self.timeout
        with selectors.DefaultSelector() as selector:
            for rank in ranks:
                selector.register(self._connections[rank], selectors.EVENT_READ, rank)
            while waiting := [key.data for key in selector.get_map().values()]:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise self._told(_missing(waiting, self.rank, self.timeout))
                for key, _ in ready:
                    try:
                        found[key.data] = _read(self._connections[key.data], deadline)
                    except TimeoutError:
                        raise self._told(_missing([key.data], self.rank, self.timeout)) from None
                    except OSError as error:
                        raise self._told(_gone([key.data], self.rank, error)) from error
                    selector.unregister(key.fileobj)
        return found

    def _told(self, error: LostRanksError) -> LostRanksError:
        """Let the ranks that wait for rank 0 hear of it."""
        if self.rank == 0:
            told = {"ranks": error.ranks, "reason": str(error), "timed_out": error.timed_out}
            message = _LOST + json.dumps(told).encode()
            for rank, connection in self._connections.items():
                if rank not in error.ranks:
                    connection.settimeout(1.0)
                    try:
                        connection.sendall(_LENGTH.pack(len(message)) + message)
                    except OSError:  # it will find out by itself
                        continue
        return error


class Meeting:
    """The meeting point at which ranks connect to rank 0, once for each group that they make.

    Args:
        address: rank 0's, as the others reach it.
        port: on which rank 0 listens; 0 for a free one, which is then in `port`.
        timeout: seconds in which all must have come.
    """

    def __init__(self, rank: int, size: int, address: str, port: int, timeout: float) -> None:
        self.rank, self.size, self._timeout = rank, size, timeout
        self._address, self._made, self.port = (address, port), 0, port
        self._listener: socket.socket | None = None
        self._early: dict[tuple[int, int], socket.socket] = {}
        if rank == 0:
            self._listener = socket.socket()
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(("", port))
            self.port = self._listener.getsockname()[1]
            self._listener.listen(size)

    def group(self, timeout: float) -> TcpGroup:
        """The next one. Every rank must ask for it."""
        number, self._made = self._made, self._made + 1
        deadline = time.monotonic() + self._timeout
        connections = self._accept(number, deadline) if self.rank == 0 else {0: self._connect(number, deadline)}
        for connection in connections.values():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return TcpGroup(self, connections, timeout)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()

    def _connect(self, number: int, deadline: float) -> socket.socket:
        while True:
            try:
                connection = socket.create_connection(self._address, timeout=max(0.1, deadline - time.monotonic()))
                connection.sendall(_HELLO.pack(_MAGIC, number, self.rank, self.size))
                return connection
            except OSError as error:  # rank 0 is perhaps not up yet
                if time.monotonic() > deadline:
                    raise _missing([0], self.rank, self._timeout) from error
                time.sleep(_RETRY_SECONDS)

    def _accept(self, number: int, deadline: float) -> dict[int, socket.socket]:
        assert self._listener is not None
        wanted = {(number, rank) for rank in range(1, self.size)}
        while missing := wanted - self._early.keys():
            self._listener.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                raise _missing([rank for _, rank in missing], 0, self._timeout) from None
            connection.settimeout(_MORE_PATIENCE)
            try:
                magic, its, rank, size = _HELLO.unpack(_exactly(connection, _HELLO.size))
            except OSError:  # not one of the ranks
                connection.close()
                continue
            if (magic, size) != (_MAGIC, self.size) or not 0 < rank < self.size:
                connection.close()
                continue
            self._early[its, rank] = connection
        return {rank: self._early.pop((number, rank)) for rank in range(1, self.size)}


def join(rank: int, size: int, address: str, port: int, timeout: float) -> TcpGroup:
    """The group of `size` processes; rank 0 listens on `port` of `address`.

    Raises:
        LostRanksError: some did not come within `timeout` seconds; rank 0 names them.
    """
    return Meeting(rank, size, address, port, timeout).group(timeout)


def _read(connection: socket.socket, deadline: float) -> bytes:
    def patient() -> None:
        connection.settimeout(max(0.001, deadline - time.monotonic()))

    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size, patient))
    return bytes(_exactly(connection, length, patient))


def _exactly(connection: socket.socket, length: int, before: Callable[[], None] = lambda: None) -> bytearray:
    data = bytearray(length)
    view, done = memoryview(data), 0
    while done < length:
        before()
        count = connection.recv_into(view[done : done + _PIECE])
        if not count:
            raise ConnectionResetError("it was closed by the other side")
        done += count
    return data


def _missing(ranks: Sequence[int], own: int, seconds: float) -> LostRanksError:
    said = f"rank {own}: timed out after {seconds:g} s waiting for {_named(ranks)}"
    return LostRanksError(ranks, said, timed_out=True)


def _gone(ranks: Sequence[int], own: int, error: OSError) -> LostRanksError:
    said = f"rank {own}: the connection to {_named(ranks)} is lost ({error.strerror or error})"
    return LostRanksError(ranks, said, timed_out=False)


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, sorted(ranks)))}"
