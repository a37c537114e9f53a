"""The model starts badly: outputs of layers that are huge or nothing at all, a matrix whose weights are all the same,
or a loss far above that of guessing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Seen

WATCHES = "layers"
ACTION = "warn"
WINDOW = "the first step"
ADVICE = (
    "Start matrices at random with a variance of about 1 / inputs (torch's default, Kaiming or Xavier), scale the "
    "inputs to about 1, and start the last layer small."
)


@dataclass
class Rule:
    largest: float = 1e3
    """Root mean square of a layer's outputs."""
    smallest: float = 1e-5
    """Root mean square of a layer's outputs; exactly 0 is a choice (residual branches start so)."""
    guesses: float = 5.0
    """The loss beside ln(classes), which is that of guessing."""

    def __post_init__(self) -> None:
        self._is_first = True

    def see(self, record: Record) -> Seen | None:
        assert record.layers is not None
        if not self._is_first:
            return None
        self._is_first = False
        if record.step > 1:  # a training that goes on
            return None
        sizes = record.layers.rms("sq", "size")
        for row, size in enumerate(sizes.tolist()):
            if size > self.largest or 0 < size < self.smallest:
                name = record.layers.names[row]
                return Seen(f"the outputs of {name} have size {size:.1e} in the first step", name)
        if (name := _constant(record)) is not None:
            return Seen(f"all weights of {name} are the same: its units learn the same", name)
        classes = 0 if record.classes is None else len(record.classes)
        if classes > 1 and record.loss is not None and record.loss > self.guesses * math.log(classes):
            return Seen(
                f"the first loss is {record.loss:.3g}, and guessing {classes} classes gives {math.log(classes):.3g}"
            )
        return None


def _constant(record: Record) -> str | None:
    """A matrix of equal weights; zeros are a choice."""
    if record.tensors is None:
        return None
    table, size = record.tensors, record.tensors["sampled"]
    mean, square = table.mean("weight_sum", "sampled"), table.mean("weight_sq", "sampled")
    spread = np.sqrt(np.maximum(square - mean * mean, 0.0))
    same = np.array(record.matrices, dtype=bool) & (size > 1) & (np.abs(mean) > 0) & (spread < 1e-4 * np.abs(mean))
    # After the first step, whose updates are all the same where the weights are.
    rows = np.flatnonzero(same)
    return table.names[int(rows[0])] if rows.size else None
