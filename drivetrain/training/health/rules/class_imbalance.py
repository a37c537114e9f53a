"""The training hardly ever sees some class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.base.errors import and_more
from drivetrain.training.health.record import Floats, Record
from drivetrain.training.health.rule import Seen

WATCHES = "classes"
ACTION = "warn"
WINDOW = "50 samples a class, of the recorded steps"
ADVICE = "Give sampling=balanced, or weigh the classes in the recipe's losses; accuracy says little here."


@dataclass
class Rule:
    share: float = 0.1
    """The share of what each class would have if all had as many."""
    samples: int = 50
    """Samples a class, on average, before it says anything."""

    def __post_init__(self) -> None:
        self._counts: Floats | None = None

    def see(self, record: Record) -> Seen | None:
        assert record.classes is not None
        self._counts = record.classes if self._counts is None else self._counts + record.classes
        counts, total = self._counts, float(self._counts.sum())
        mean = total / len(counts)
        if len(counts) < 2 or mean < self.samples:
            return None
        rare = [f"class {int(row)} ({counts[row] / total:.2%})" for row in np.flatnonzero(counts < self.share * mean)]
        if not rare:
            return None
        return Seen(f"of {int(total)} samples few are of {and_more(rare, 3)}", rare[0].partition(" (")[0])
