"""A rank's part of a batch in pieces, whose gradients are accumulated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from operator import itemgetter

from torch import Tensor

from drivetrain.training import trees
from drivetrain.training.recipe import Batch

# For pieces around which nothing is to be done: made once, since every step enters it.
NOTHING = nullcontext()


def pieces(batch: Batch, num_samples: int, count: int) -> Iterable[tuple[Batch, int, bool]]:
    """Cut a rank's part of a batch into `count` pieces: (piece, how many of its samples count, whether it is the last).

    Every rank goes through the same number of pieces, since it may meet the others in each; one for which a rank has no
    sample is its first sample, with a count of 0.
    """
    if count == 1:  # no copy, no slice
        return ((batch, num_samples, True),)
    return _cut(batch, num_samples, count)


def _cut(batch: Batch, num_samples: int, count: int) -> Iterator[tuple[Batch, int, bool]]:
    for number in range(count):
        start, stop = num_samples * number // count, num_samples * (number + 1) // count
        rows = slice(start, stop) if stop > start else slice(0, 1)
        piece = trees.mapped(itemgetter(rows), (batch.inputs, batch.targets))
        yield Batch(*piece), stop - start, number == count - 1


class ScaledLoss:
    """The gradient of a summed loss that is multiplied by a scale."""

    def __init__(self) -> None:
        self._kept: tuple[float, Tensor] | None = None

    def gradient(self, summed: Tensor, scale: float | Tensor) -> Tensor:
        """In the format of `summed`, shape []. A number's tensor is kept: most steps have the same scale."""
        if isinstance(scale, Tensor):
            return scale.to(summed.dtype)
        if self._kept is None or self._kept[0] != scale or self._kept[1].dtype != summed.dtype:
            self._kept = scale, summed.new_full((), scale)
        return self._kept[1]
