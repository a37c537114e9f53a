"""The running sum of the training loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.process import Process


class RunningLoss:
    """The mean loss per sample over all ranks, weighted if the samples have weights. Sums are scalars of the framework
    and stay on the device. Methods that return a number wait for the other ranks, so every rank must call them.

    Args:
        on_host: nothing waits for a loss's number, which is added up faster than a scalar, with the same bits.
    """

    def __init__(self, process: Process, *, on_host: bool = False) -> None:
        self.process, self._on_host = process, on_host
        self.total: Any = 0.0
        self.num_samples = 0
        self.weight: Any = None
        self.start_epoch()

    def start_epoch(self) -> None:
        self.total = 0.0
        self.num_samples = 0
        self.weight = None
        self._reported, self._num_reported, self._weight_reported = self.total, 0, None

    def add(self, summed_loss: Any, num_global_samples: int, weight: Any = None) -> None:
        """A step's sum over this rank's samples, a float64 scalar; over all ranks the number of samples, and what
        they weigh together, the same (None: 1 each)."""
        self.total = self.total + (float(summed_loss) if self._on_host else summed_loss)
        self.num_samples += num_global_samples
        if weight is not None:
            self.weight = weight if self.weight is None else self.weight + weight

    def of_epoch(self) -> float:
        """The mean since the epoch started; 0 where nothing weighed anything."""
        return _mean(self.process.sum(float(self.total)), self.num_samples, self.weight)

    def since_last(self) -> float:
        """The mean since the last `mark`, or since the epoch started."""
        total, num_samples = self.total - self._reported, self.num_samples - self._num_reported
        weight = self.weight
        if weight is not None and self._weight_reported is not None:
            weight = weight - self._weight_reported
        return _mean(self.process.sum(float(total)), num_samples, weight)

    def mark(self) -> None:
        """The loss up to now has been reported."""
        self._reported, self._num_reported = self.total, self.num_samples
        self._weight_reported = self.weight

    def state(self) -> dict[str, Any]:
        """The sums of all ranks, kept apart: a single sum could differ in its last bit after a resume."""
        sums = np.zeros((2, self.process.world_size))
        sums[:, self.process.rank] = float(self.total), float(self._reported)
        total, reported = self.process.sum(sums).tolist()
        weights = {"weight": self.weight, "weight_reported": self._weight_reported}
        return {
            "sums": total,
            "num_samples": self.num_samples,
            "reported": reported,
            "num_reported": self._num_reported,
            **{name: float(weight) for name, weight in weights.items() if weight is not None},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the sums, on any number of ranks."""
        self.total, self._reported = self._own(state["sums"]), self._own(state["reported"])
        self.num_samples, self._num_reported = int(state["num_samples"]), int(state["num_reported"])
        self.weight, self._weight_reported = state.get("weight"), state.get("weight_reported")

    def _own(self, sums: list[float]) -> float:
        """This rank's sum; if the number of ranks changed, rank 0 takes them all."""
        if len(sums) == self.process.world_size:
            return sums[self.process.rank]
        return sum(sums) if self.process.is_main else 0.0


def _mean(total: NDArray[Any], num_samples: int, weight: Any) -> float:
    if weight is None:
        return float(total) / num_samples
    return float(total) / float(weight) if float(weight) else 0.0
