"""A loss, a gradient or a weight is not a finite number.

Where a rank computes on the CPU each step's loss is looked at, and the layer that had the first such number is named;
on a GPU, that of the next record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen

WATCHES = "ranks"
ACTION = "stop"
SPOILS = True
WINDOW = "the next record"
ADVICE = (
    "Lower learning_rate or give clip_norm; look for empty or extreme values in the data, and for a logarithm, a "
    "root or a division by zero in the recipe."
)


@dataclass
class Rule:
    def see(self, record: Record) -> Seen | None:
        assert record.ranks is not None
        met = record.ranks["nonfinite"]
        ranks = [int(rank) for rank in np.flatnonzero(met)]
        if ranks:
            first = min(ranks, key=lambda rank: met[rank])
            return Seen(f"the loss was not finite on rank {first} in step {int(met[first])}", f"rank {first}")
        if record.loss is not None and not np.isfinite(record.loss):
            return Seen("the loss is not finite")
        where = _first_layer(record)
        if record.tensors is None or record.scaled:  # where the loss is scaled such a step is skipped
            return None
        bad = np.flatnonzero(~np.isfinite(record.tensors["weight_sq"]))
        if bad.size:
            name = record.tensors.names[int(bad[0])]
            return Seen(f"weights of {name} are not finite", name)
        bad = np.flatnonzero(~np.isfinite(record.tensors["grad_sq"]))
        if bad.size:  # the last of them is the first that the backward pass came to
            name = where or record.tensors.names[int(bad[-1])]
            return Seen(f"gradients of {bad.size} tensors are not finite, first at {name}", name)
        return None


def _first_layer(record: Record) -> str:
    if record.layers is None:
        return ""
    bad = np.flatnonzero(~np.isfinite(record.layers["sq"]))
    return record.layers.names[int(bad[0])] if bad.size else ""
