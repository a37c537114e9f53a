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
from dataclasses import dataclass, fields
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from drivetrain.training_scripts.cursor import Indices, Order, share
from drivetrain.training_scripts.dataset import Dataset
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.parent import follow_parent
from drivetrain.training_scripts.recipe import Batch

# Small batches are read several steps at a time: what numpy, torch and the recipe cost a call is spread over them.
# Nothing but the data and the global batch decides how many, so that a recipe sees the same rows together in any run.
CHUNK_BYTES = 1 << 20
CHUNK_STEPS = 16


@dataclass(frozen=True, slots=True)
class Step:
    """What one process works on in one step."""

    consumed: int
    """Samples of the training before this step: the cursor."""
    indices: Indices
    """The samples of this process; none where the global batch is smaller than the number of processes."""
    batch: Batch
    """They as tensors on the CPU (pinned for a GPU); a stand-in of one sample where there are none."""
    num_samples: int
    """How many samples of `batch` count: 0 for a stand-in."""
    num_global_samples: int
    """Samples of the global batch, over all processes."""


class Loader:
    """Steps from a position on.

    Args:
        consumed: samples of the training so far.
        data_rank, data_size: which part of each global batch is read here (`Layout.data_rank`, `data_size`).
        end: where to stop, in samples since the start of training; None goes on for ever.
        device: for a GPU the batches are pinned, so that they can be copied while it computes.
        prefetch: steps to read ahead; 0 reads when they are asked for (small ones a few at a time all the same).
        workers: processes that read instead of a thread, for recipes whose batches cost more than a step.
        augment: whether the recipe's `augment` changes the batches; not where nothing is learnt.

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
        device: torch.device | None = None,
        prefetch: int = CHUNK_STEPS,
        workers: int = 0,
        augment: bool = True,
    ) -> None:
        for name, value in (("prefetch", prefetch), ("workers", workers)):
            if value < 0:
                raise InputError(f"{name}={value}; allowed are whole numbers from 0.")
        if workers and not prefetch:
            raise InputError(f"workers={workers} with prefetch=0: workers read ahead. Give a prefetch from 1.")
        chunks = _Chunks(dataset, order, consumed, data_rank, data_size, augment=augment)
        positions = chunks.positions(consumed, end)
        pin = device is not None and device.type == "cuda"
        ahead = -(-prefetch // chunks.steps)
        self._source: _Source
        if workers:
            self._source = _Workers(chunks, positions, workers, ahead=ahead, pin=pin)
        elif prefetch:
            self._source = _Thread(chunks, positions, ahead=ahead, pin=pin)
        else:
            self._source = _Inline(chunks, positions, pin=pin)
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


@dataclass(frozen=True)
class _Chunk:
    """Steps that are read together: consumed and (indices, global samples) of each, and the tensors of all."""

    consumed: int
    shares: list[tuple[Indices, int]]
    tensors: tuple[Tensor, ...]

    def steps(self, kind: type[Batch]) -> list[Step]:
        sizes = [max(1, len(own)) for own, _ in self.shares]
        cut = [tensor.split(sizes) for tensor in self.tensors]
        made: list[Step] = []
        consumed = self.consumed
        for (own, num_global), parts in zip(self.shares, zip(*cut, strict=True), strict=True):
            made.append(Step(consumed, own, kind(*parts), len(own), num_global))
            consumed += num_global
        return made


class _Chunks:
    """Reads chunks: groups of steps on a grid that does not depend on where a training begins."""

    def __init__(
        self,
        dataset: Dataset,
        order: Order,
        consumed: int,
        data_rank: int,
        data_size: int,
        *,
        augment: bool,
    ) -> None:
        self.dataset = dataset
        self.order = order
        self.data_rank = data_rank
        self.data_size = data_size
        self.augment = getattr(dataset.recipe, "augment", None) if augment else None
        sample = sum(tensor.nbytes for tensor in _tensors(dataset.batch(order.batch(consumed)[:1])))
        by_size = CHUNK_BYTES // max(1, sample * order.global_batch)
        self.steps = max(1, min(CHUNK_STEPS, by_size, order.steps_per_epoch))

    def positions(self, consumed: int, end: int | None) -> Iterator[int]:
        """Where the chunks begin, from the one that `consumed` lies in."""
        order, stride = self.order, self.steps * self.order.global_batch
        epoch, start = divmod(consumed, order.num_samples)
        start -= start % stride
        while end is None or epoch * order.num_samples + start < end:
            yield epoch * order.num_samples + start
            start += stride
            if start >= order.num_samples:
                epoch, start = epoch + 1, 0

    def read(self, first: int) -> _Chunk:
        """The chunk that begins after `first` samples."""
        order = self.order
        epoch, start = divmod(first, order.num_samples)
        shares: list[tuple[Indices, int]] = []
        rows: list[Indices] = []
        places: list[Indices] = []
        position = start
        while len(shares) < self.steps and position < order.num_samples:
            indices = order.batch(epoch * order.num_samples + position)
            place = share(np.arange(len(indices)), self.data_rank, self.data_size)
            own = indices[place]
            shares.append((own, len(indices)))
            rows.append(own if len(own) else indices[:1])
            places.append(position + (place if len(place) else np.zeros(1, dtype=np.int64)))
            position += len(indices)
        wanted = np.concatenate(rows)
        try:
            batch = self.dataset.batch(wanted)
            if self.augment is not None:
                batch = self.augment(batch, order.seeds(epoch, np.concatenate(places).astype(np.uint64), wanted))
        except StopIteration as error:  # it would end the training as if it were done
            raise RuntimeError("reading a batch ended with StopIteration") from error
        return _Chunk(first, shares, _tensors(batch))


def _tensors(batch: Batch) -> tuple[Tensor, ...]:
    return tuple(getattr(batch, field.name) for field in fields(batch))


class _Source(Protocol):
    def next(self) -> list[Step]:
        """The steps of the next chunk.

        Raises:
            StopIteration: there is none.
        """
        ...

    def close(self) -> None: ...


def _finished(chunk: _Chunk, *, pin: bool) -> list[Step]:
    if pin:
        chunk = _Chunk(chunk.consumed, chunk.shares, tuple(tensor.pin_memory() for tensor in chunk.tensors))
    return chunk.steps(Batch)


class _Inline:
    def __init__(self, chunks: _Chunks, positions: Iterator[int], *, pin: bool) -> None:
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

    def fill(self, chunks: _Chunks, positions: Iterator[int], pin: bool) -> None:
        try:
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
            thread.join(timeout=10)


class _Thread:
    def __init__(self, chunks: _Chunks, positions: Iterator[int], *, ahead: int, pin: bool) -> None:
        self._shelf = _Shelf(ahead)
        thread = threading.Thread(target=self._shelf.fill, args=(chunks, positions, pin), name="loader", daemon=True)
        # Also when nobody closes it: with the loader, and before the interpreter takes its threads apart.
        self._close = weakref.finalize(self, self._shelf.close, thread)
        thread.start()

    def next(self) -> list[Step]:
        return self._shelf.take()

    def close(self) -> None:
        self._close()


class _Workers:
    def __init__(self, chunks: _Chunks, positions: Iterator[int], workers: int, *, ahead: int, pin: bool) -> None:
        from torch.utils.data import DataLoader

        loader: Any = DataLoader(
            _InWorker(chunks),  # pyright: ignore[reportArgumentType]
            batch_size=None,
            sampler=_Once(positions),  # pyright: ignore[reportArgumentType]
            num_workers=workers,
            prefetch_factor=max(1, -(-ahead // workers)),
            collate_fn=_as_it_is,
            worker_init_fn=_end_with_loop,
            pin_memory=pin,
            multiprocessing_context="fork",  # the columns that are held, or mapped, are there without being sent
        )
        self._iterator: Iterator[tuple[Any, ...]] = iter(loader)

    def next(self) -> list[Step]:
        consumed, shares, tensors, error = next(self._iterator)
        if error is not None:
            raise error
        return _Chunk(consumed, shares, tuple(tensors)).steps(Batch)

    def close(self) -> None:
        self._iterator = iter(())  # the workers end with it


class _InWorker:
    """A map-style data set for torch: the item at a position is a chunk, or the error that reading it gave."""

    def __init__(self, chunks: _Chunks) -> None:
        self._chunks = chunks

    def __getitem__(self, first: int) -> tuple[int, list[tuple[Indices, int]], tuple[Tensor, ...], Exception | None]:
        try:
            chunk = self._chunks.read(first)
        except Exception as error:
            return first, [], (), _sendable(error)
        return chunk.consumed, chunk.shares, chunk.tensors, None


class _Once:
    """Positions as torch's sampler, which it iterates once."""

    def __init__(self, positions: Iterator[int]) -> None:
        self._positions = positions

    def __iter__(self) -> Iterator[int]:
        return self._positions


def _as_it_is(chunk: Any) -> Any:
    return chunk


def _end_with_loop(_: int) -> None:
    """torch's workers look for their parent every few seconds; a launcher that has killed a rank does not wait."""
    follow_parent(signal.SIGKILL)


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
