"""Processes that talk to each other: bytes and numpy arrays, whatever framework moves the gradients.

    group.sum(counts)                      in place, the same on every rank
    data = group.broadcast(data)           rank 0's bytes on every rank
    parts = group.gather(data)             what each rank gave, on every rank
    own = group.twin()                     the same ranks; its messages are in nobody's way

A file of this folder is one implementation: gloo.py over torch.distributed, tcp.py over plain sockets, which needs no
framework. What an implementation must have is the four messages between rank 0 and the others; everything else is made
of them, and replaced where a library does it better. Every rank calls the same operations in the same order, and never
from two threads at a time: what another thread says goes over a twin.

Everything is bytes, mostly JSON, and never a pickle. A rank that does not come, or is gone, ends an operation with a
`LostRanksError`: at once, or after `timeout` seconds.
"""

from __future__ import annotations

import itertools
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.errors import LostRanksError

__all__ = ["ALONE", "Array", "Group", "LostRanksError"]

T = TypeVar("T")
Array = NDArray[Any]

_PACE_S = 1.0


class Group(ABC):
    """See the module.

    Attributes:
        rank, size: this process is `rank` of `size`.
        timeout: seconds that an operation waits for the other ranks.
    """

    rank: int
    size: int
    timeout: float

    # What an implementation has.

    @abstractmethod
    def twin(self, timeout: float | None = None) -> Group:
        """Another group of the same ranks. Every rank must ask for it."""

    @abstractmethod
    def to_main(self, data: bytes) -> list[bytes] | None:
        """Gather the bytes of each rank on rank 0; None on the others, which go on with rank 0's answer (`deal`)."""

    @abstractmethod
    def deal(self, parts: Sequence[bytes] | None) -> bytes:
        """The part that rank 0 has for this rank; the others give None."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """To rank 0, which waits for it by `receive`; never called on rank 0."""

    @abstractmethod
    def receive(self, rank: int) -> bytes:
        """Receive on rank 0 what `rank` has sent."""

    # What is made of it.

    def from_main(self, data: bytes | None) -> bytes:
        """Give every rank the bytes of rank 0; the others give None."""
        return self.deal(None if data is None else [data] * self.size)

    def broadcast(self, data: bytes | None, *, source: int = 0) -> bytes:
        """Give every rank the bytes of rank `source`; the others give None."""
        if source and self.size > 1:
            parts = self.to_main(data or b"")
            data = parts[source] if parts else None
        return self.from_main(data)

    def gather(self, data: bytes) -> list[bytes]:
        """Give every rank the bytes of each rank."""
        parts = self.to_main(data)
        if parts is not None:
            self.from_main(json.dumps([len(part) for part in parts]).encode() + b"\n" + b"".join(parts))
            return parts
        sizes, _, joined = self.from_main(None).partition(b"\n")
        ends = list(itertools.accumulate(json.loads(sizes), initial=0))
        return [joined[start:end] for start, end in itertools.pairwise(ends)]

    def gather_json(self, value: Any) -> list[Any]:
        return [json.loads(data) for data in self.gather(json.dumps(value).encode())]

    def sum(self, values: Array) -> None:
        """Add up the arrays of all ranks, in place: of one shape and type, contiguous. Whole numbers exactly; of other
        numbers every rank gets the same bits, but two implementations may add in different orders."""
        _reduced(self, values, np.add)()

    def start_max(self, values: Array) -> Callable[[], None]:
        """Begin to take the largest of each number of all ranks, in place; what is returned waits for it. In between
        nothing else is said over this group."""
        return _reduced(self, values, np.maximum)

    def start_sum(self, values: Array) -> Callable[[], None]:
        """Begin to add up the arrays of all ranks, as `sum` does; what is returned waits for it, as of `start_max`."""
        return _reduced(self, values, np.add)

    def all_gather(self, own: Array) -> Array:
        """The arrays of all ranks, which have one shape and type: [ranks, ...]."""
        parts = self.gather(np.ascontiguousarray(own).tobytes())
        return np.stack([np.frombuffer(part, own.dtype).reshape(own.shape) for part in parts])

    def all_to_all(self, rows: Array, to: Sequence[int], of: Sequence[int]) -> Array:
        """Rows to each rank, `to[rank]` of them one rank after the other, for rows from each, `of[rank]`."""
        width = rows[:1].nbytes or rows.dtype.itemsize * int(np.prod(rows.shape[1:]))
        sent = np.ascontiguousarray(rows).tobytes()
        ends = [end * width for end in itertools.accumulate(to, initial=0)]
        # The sizes for each rank come first, so that rank 0 can cut.
        given = self.to_main(json.dumps(ends).encode() + b"\n" + sent)
        parts: list[bytes] | None = None
        if given is not None:
            cut = [_cut(each) for each in given]
            parts = [b"".join(pieces[rank] for pieces in cut) for rank in range(self.size)]
        return np.frombuffer(self.deal(parts), rows.dtype).reshape(sum(of), *rows.shape[1:])

    def barrier(self) -> None:
        """Return when every rank has come here."""
        self.to_main(b"")
        self.from_main(b"" if self.rank == 0 else None)

    def meanwhile(self, work: Callable[[], T]) -> T:
        """Do something that may take longer on one rank than on another, such as to wait for its disk. Every rank must
        call it. As long as one is at it all hear of each other: a slow disk is told from a rank that stands still.

        Raises:
            Exception: what `work` raises here, once all have done with theirs.
        """
        if self.size == 1:
            return work()
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="meanwhile", daemon=True).start()
        pace = min(_PACE_S, self.timeout / 4)
        while not all(self.gather_json(bool(wait([done], timeout=pace).done))):
            continue
        return done.result()

    def close(self) -> None:  # noqa: B027 (most have nothing to do)
        """Leave in order. Only after success: it may need the others."""


class Alone(Group):
    """One process, which talks to nobody."""

    rank, size, timeout = 0, 1, 0.0

    def twin(self, timeout: float | None = None) -> Group:
        return self

    def to_main(self, data: bytes) -> list[bytes] | None:
        return [data]

    def deal(self, parts: Sequence[bytes] | None) -> bytes:
        assert parts is not None
        return parts[0]

    def send(self, data: bytes) -> None:
        raise AssertionError("rank 0 sends itself nothing")

    def receive(self, rank: int) -> bytes:
        raise AssertionError("there is no other rank")

    def sum(self, values: Array) -> None:
        return

    def start_max(self, values: Array) -> Callable[[], None]:
        return _nothing

    def start_sum(self, values: Array) -> Callable[[], None]:
        return _nothing


ALONE = Alone()


def _nothing() -> None:
    return


def _reduced(group: Group, values: Array, operation: Callable[..., Any]) -> Callable[[], None]:
    """Send this rank's numbers to rank 0; what is returned gets all ranks' back, combined in the order of the ranks."""
    assert values.flags.c_contiguous
    if group.rank:
        group.to_main(values.tobytes())

    def finish() -> None:
        if group.rank == 0:
            parts = group.to_main(b"")
            assert parts is not None
            for part in parts[1:]:
                operation(values, np.frombuffer(part, values.dtype).reshape(values.shape), out=values)
            group.from_main(values.tobytes())
            return
        values[...] = np.frombuffer(group.from_main(None), values.dtype).reshape(values.shape)

    return finish


def _cut(given: bytes) -> list[bytes]:
    ends, _, data = given.partition(b"\n")
    return [data[start:end] for start, end in itertools.pairwise(json.loads(ends))]
