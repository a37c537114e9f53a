"""The batches of a training, read ahead: by a thread, by worker processes, or when they are asked for.

    with Loader(dataset, order, consumed, data_rank=rank, data_size=size, end=total) as steps:
        for step in steps:
            ...

What comes is a function of the order and the position alone: the same with a thread, with workers and without, and on
any number of processes.
"""

from __future__ import annotations

import copy
import signal
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol, Self

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.chunks import CHUNK_STEPS, Chunk, Chunks, Step
from drivetrain.training.input_pipeline.cursor import Order
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.launch.processes.parent import follows_parent
from drivetrain.training.recipe import Batch

# How long the end of a loader waits for a read: of a rank that has lost a peer no more than 5 s are to be left.
_GRACE_S = 1.0


class Source(Protocol):
    def next(self) -> list[Step]:
        """The steps of the next chunk.

        Raises:
            StopIteration: there is none.
        """
        ...

    def close(self) -> None: ...


def _finished(chunk: Chunk, *, pin: Any) -> list[Step]:
    return (chunk if pin is None else chunk.pin_memory()).steps(Batch)


class Inline:
    def __init__(self, chunks: Chunks, positions: Iterator[int], *, pin: Any) -> None:
        self._chunks, self._positions, self._pin = chunks, positions, pin

    def next(self) -> list[Step]:
        return _finished(self._chunks.read(next(self._positions)), pin=self._pin)

    def close(self) -> None:
        self._positions = iter(())


class _Shelf:
    """Chunks between the thread that reads and the loop that takes; the thread keeps this, and not the loader."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.chunks: deque[list[Step]] = deque()
        self.changed = threading.Condition()
        self.error: BaseException | None = None
        self.ended = False
        self.closed = False

    def fill(self, chunks: Chunks, positions: Iterator[int], pin: Any) -> None:
        try:
            if pin is not None:  # a new thread is on the first GPU: every rank would take memory there
                import torch

                torch.cuda.set_device(pin)
            for position in positions:
                made = _finished(chunks.read(position), pin=pin)
                with self.changed:
                    if self.closed:
                        return
                    self.chunks.append(made)
                    self.changed.notify_all()
                    # One is being taken apart by the loop, `ahead` lie here.
                    self.changed.wait_for(lambda: self.closed or len(self.chunks) < self.ahead)
                    if self.closed:
                        return
        except BaseException as error:
            self.error = error
        finally:
            with self.changed:
                self.ended = True
                self.changed.notify_all()

    def take(self) -> list[Step]:
        with self.changed:
            self.changed.wait_for(lambda: self.chunks or self.ended or self.closed)
            if self.chunks:
                made = self.chunks.popleft()
                self.changed.notify_all()
                return made
        if self.error is not None and not self.closed:
            raise self.error
        raise StopIteration

    def close(self, thread: threading.Thread) -> None:
        with self.changed:
            self.closed = True
            self.chunks.clear()
            self.changed.notify_all()
        if thread is not threading.current_thread():
            # A read that hangs (a network folder that is gone) must not keep the process from ending.
            thread.join(_GRACE_S)


class Thread:
    def __init__(self, chunks: Chunks, positions: Iterator[int], *, ahead: int, pin: Any) -> None:
        self._shelf = _Shelf(ahead)
        thread = threading.Thread(target=self._shelf.fill, args=(chunks, positions, pin), name="loader", daemon=True)
        # Also when nobody closes it: with the loader, and before the interpreter takes its threads apart.
        self._close = weakref.finalize(self, self._shelf.close, thread)
        thread.start()

    def next(self) -> list[Step]:
        return self._shelf.take()

    def close(self) -> None:
        self._close()


class Workers:
    def __init__(self, chunks: Chunks, positions: Iterator[int], workers: int, *, ahead: int, pin: Any) -> None:
        from torch.utils.data import DataLoader

        # torch's workers look for their parent every few seconds, and one whose pipe is full does not end even then, as
        # the others hold its other end. Made here, where the parent lives: it may be dead before a worker's first line.
        end_with_parent = follows_parent(signal.SIGKILL)
        loader: Any = DataLoader(
            _InWorker(chunks),  # pyright: ignore[reportArgumentType]
            batch_size=None,
            sampler=_Once(positions),  # pyright: ignore[reportArgumentType]
            num_workers=workers,
            prefetch_factor=max(1, -(-ahead // workers)),
            collate_fn=_as_it_is,
            worker_init_fn=lambda _: end_with_parent(),
            pin_memory=pin is not None,  # by a thread of torch's, on the device of this one
            multiprocessing_context="fork",  # the columns that are held, or mapped, are there without being sent
        )
        self._iterator: Iterator[tuple[Chunk, Exception | None]] = iter(loader)

    def next(self) -> list[Step]:
        chunk, error = next(self._iterator)
        if error is not None:
            raise error
        return chunk.steps(Batch)

    def close(self) -> None:
        self._iterator = iter(())  # the workers end with it


class _InWorker:
    """A map-style data set for torch: the item at a position is a chunk, or the error that reading it gave."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks

    def __getitem__(self, first: int) -> tuple[Chunk, Exception | None]:
        try:
            return self._chunks.read(first), None
        except Exception as error:
            return Chunk(first, [], ()), _sendable(error)


class _Once:
    """Positions as torch's sampler, which it iterates once."""

    def __init__(self, positions: Iterator[int]) -> None:
        self._positions = positions

    def __iter__(self) -> Iterator[int]:
        return self._positions


def _as_it_is(chunk: Any) -> Any:
    return chunk


def _sendable(error: Exception) -> Exception:
    """The error with the worker's traceback as a note; one that cannot leave its process comes as text."""
    text = "".join(traceback.format_exception(error))
    try:
        copy.copy(error)  # some cannot be made again from what they keep
        ForkingPickler.dumps(error)
    except Exception:
        return RuntimeError(f"a loader worker failed:\n{text}")
    error.add_note(f"In a loader worker:\n{text}")
    return error


__all__ = ["Loader", "Step"]


class Loader:
    """Steps from a position on.

    Args:
        consumed: samples of the training so far.
        data_rank, data_size: which part of each global batch is read here (`Layout.data_rank`, `data_size`).
        end: where to stop, in samples since the start of training; None goes on for ever.
        device: for a GPU of torch the batches are pinned, so that they can be copied while it computes.
        prefetch: steps to read ahead; 0 reads when they are asked for (small ones a few at a time all the same).
        workers: processes that read instead of a thread, for recipes whose batches cost more than a step.

    Errors of reading are raised where the step would have come, as they are.

    Raises:
        InputError: `prefetch` or `workers` below 0, or workers without `prefetch`.
    """

    def __init__(
        self,
        dataset: Dataset,
        order: Order,
        consumed: int = 0,
        *,
        data_rank: int = 0,
        data_size: int = 1,
        end: int | None = None,
        device: Any = None,
        prefetch: int = CHUNK_STEPS,
        workers: int = 0,
    ) -> None:
        for name, value in (("prefetch", prefetch), ("workers", workers)):
            if value < 0:
                raise InputError(f"{name}={value}; allowed are whole numbers from 0.")
        if workers and not prefetch:
            raise InputError(f"workers={workers} with prefetch=0: workers read ahead. Give a prefetch from 1.")
        chunks = Chunks(dataset, order, consumed, data_rank, data_size)
        positions = chunks.positions(consumed, end)
        pin = device if getattr(device, "type", "") == "cuda" else None
        ahead = -(-prefetch // chunks.steps)
        self._source: Source
        if workers:
            self._source = Workers(chunks, positions, workers, ahead=ahead, pin=pin)
        elif prefetch:
            self._source = Thread(chunks, positions, ahead=ahead, pin=pin)
        else:
            self._source = Inline(chunks, positions, pin=pin)
        self._steps: Iterator[Step] = iter(())
        self._first = consumed
        self._end = end

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Step:
        while True:
            for step in self._steps:
                # A chunk is read whole, also where the training begins or ends inside it.
                if self._end is not None and step.consumed >= self._end:
                    raise StopIteration
                if step.consumed >= self._first:
                    return step
            self._steps = iter(self._source.next())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread or the workers. What was read ahead is given up."""
        self._steps = iter(())
        self._source.close()
