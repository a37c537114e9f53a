"""The batches of a training, read ahead: by a thread, by worker processes, or when they are asked for.

    with Loader(dataset, order, consumed, data_rank=rank, data_size=size, end=total) as steps:
        for step in steps:
            ...

What comes is a function of the order and the position alone: the same with a thread, with workers and without, and on
any number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.chunks import CHUNK_STEPS, Chunks, Step
from drivetrain.training.input_pipeline.cursor import Order
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.read_ahead import Inline, Source, Thread, Workers

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
