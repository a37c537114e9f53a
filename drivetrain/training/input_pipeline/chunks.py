"""The steps of a training as one process reads them: a few at a time, on a grid that does not move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drivetrain.training import trees
from drivetrain.training.input_pipeline.cursor import Indices, Order, share
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.recipe import Batch

# Small batches are read several steps at a time: what numpy, torch and the recipe cost a call is spread over them.
# Nothing but the data and the global batch decides how many, so that a recipe sees the same rows together in any run.
CHUNK_BYTES = 1 << 20
CHUNK_STEPS = 16


@dataclass(frozen=True, slots=True)
class Step:
    """One process's work in one step."""

    consumed: int
    """Samples of the training before this step: the cursor."""
    indices: Indices
    """The samples of this process; empty if the global batch is too small for all processes."""
    batch: Batch
    """The samples as tensors on the CPU (pinned for a GPU); without samples, a stand-in of one sample."""
    num_samples: int
    """How many samples of `batch` count: 0 for a stand-in."""
    num_global_samples: int
    """Samples of the global batch, over all processes."""


@dataclass(frozen=True)
class Chunk:
    """Steps that are read together: consumed and (indices, global samples) of each; inputs and targets of all."""

    consumed: int
    shares: list[tuple[Indices, int]]
    tensors: trees.Tree

    def pin_memory(self) -> Chunk:
        """In memory from which a GPU can copy by itself; torch's DataLoader calls it, too."""
        return replace(self, tensors=trees.mapped(lambda tensor: tensor.pin_memory(), self.tensors))

    def steps(self, kind: type[Batch]) -> list[Step]:
        sizes = [max(1, len(own)) for own, _ in self.shares]
        cut = trees.split(self.tensors, sizes, _split)
        made: list[Step] = []
        consumed = self.consumed
        for (own, num_global), parts in zip(self.shares, cut, strict=True):
            made.append(Step(consumed, own, kind(*parts), len(own), num_global))
            consumed += num_global
        return made


class Chunks:
    """Reads chunks: groups of steps on a grid that does not depend on where a training begins."""

    def __init__(self, dataset: Dataset, order: Order, consumed: int, data_rank: int, data_size: int) -> None:
        self.dataset = dataset
        self.order = order
        self.data_rank = data_rank
        self.data_size = data_size
        self.augment = getattr(dataset.recipe, "augment", None)
        sample = sum(tensor.nbytes for tensor in trees.leaves(_tensors(dataset.batch(order.batch(consumed)[:1]))))
        by_size = CHUNK_BYTES // max(1, sample * order.global_batch)
        self.steps = max(1, min(CHUNK_STEPS, by_size, order.steps_per_epoch))

    def positions(self, consumed: int, end: int | None) -> Iterator[int]:
        """The starts of the chunks, from the chunk that `consumed` lies in."""
        order, stride = self.order, self.steps * self.order.global_batch
        epoch, start = divmod(consumed, order.num_samples)
        start -= start % stride
        while end is None or epoch * order.num_samples + start < end:
            yield epoch * order.num_samples + start
            start += stride
            if start >= order.num_samples:
                epoch, start = epoch + 1, 0

    def read(self, first: int) -> Chunk:
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
        return Chunk(first, shares, _tensors(batch))


def _tensors(batch: Batch) -> tuple[Any, ...]:
    return batch.inputs, batch.targets


def _split(tensor: Any, sizes: list[int]) -> Any:
    """Parts of so many samples; views."""
    return np.split(tensor, np.cumsum(sizes)[:-1]) if isinstance(tensor, np.ndarray) else tensor.split(sizes)
