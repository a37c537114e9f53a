"""A rank's part of a batch in pieces, whose gradients are accumulated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter

from drivetrain.training import trees
from drivetrain.training.recipe import Batch


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
