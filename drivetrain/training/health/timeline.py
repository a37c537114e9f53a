"""The phases of each rank over the training, in few stretches of equal length, for pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from drivetrain.training.health.record import PHASES, Floats, Table

MOST_STRETCHES = 120
# The rest is waiting, for data, other ranks or disks.
BUSY = ("forward", "backward", "optimizer", "compute", "validation")


class Timeline:
    """When there are too many stretches, neighbours become one."""

    def __init__(self, most: int = MOST_STRETCHES) -> None:
        self._most, self._each, self._count = most, 1, 0
        self._stretches: list[Floats] = []  # seconds, [phases, ranks]

    def add(self, ranks: Table) -> None:
        """A record's."""
        seconds = np.stack([ranks[name] for name in PHASES])
        if self._count % self._each:
            self._stretches[-1] = self._stretches[-1] + seconds
        else:
            self._stretches.append(seconds)
        self._count += 1
        if len(self._stretches) > self._most:
            pairs = self._stretches[: len(self._stretches) // 2 * 2]
            rest = self._stretches[len(pairs) :]
            self._stretches = [one + other for one, other in zip(pairs[::2], pairs[1::2], strict=True)] + rest
            self._each *= 2

    def as_json(self) -> dict[str, Any]:
        """`seconds` of each stretch; `busy`, of each rank the share in which it computes, [ranks][stretches]; `phases`,
        of each phase its share over all ranks, by name [stretches]."""
        whole = [np.maximum(stretch.sum(axis=0), 1e-12) for stretch in self._stretches]
        places = [PHASES.index(name) for name in BUSY]
        busy = [stretch[places].sum(axis=0) / total for stretch, total in zip(self._stretches, whole, strict=True)]
        shares = [stretch.sum(axis=1) / total.sum() for stretch, total in zip(self._stretches, whole, strict=True)]
        return {
            "seconds": [round(float(total.mean()), 3) for total in whole],
            "busy": np.round(np.array(busy).T, 4).tolist(),
            "phases": {name: [round(float(share[place]), 4) for share in shares] for place, name in enumerate(PHASES)},
        }
