"""The training loss while it is being summed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from drivetrain.training.process import Process


class RunningLoss:
    """The mean loss a sample over all ranks, weighted where samples weigh something. Sums stay on the device; only what
    returns a number waits for the others, and every rank must ask for it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.total = torch.zeros((), dtype=torch.float64, device=process.device)
        self.num_samples = 0
        self.weight: Tensor | None = None
        self.start_epoch()

    def start_epoch(self) -> None:
        self.total.zero_()
        self.num_samples = 0
        self.weight = None
        self._reported, self._num_reported, self._weight_reported = self.total.clone(), 0, None

    def add(self, summed_loss: Tensor, num_global_samples: int, weight: Tensor | None = None) -> None:
        """A step's sum over this rank's samples, shape []; over all ranks the number of samples, and what they weigh
        together, float64 [] (None: 1 each)."""
        self.total += summed_loss
        self.num_samples += num_global_samples
        if weight is not None:
            self.weight = weight if self.weight is None else self.weight + weight

    def of_epoch(self) -> float:
        """The mean since the epoch started; 0 where nothing weighed anything."""
        return _mean(self.process.sum(self.total), self.num_samples, self.weight)

    def since_last(self) -> float:
        """The mean since the last `mark`, or since the epoch started."""
        total, num_samples = self.total - self._reported, self.num_samples - self._num_reported
        weight = self.weight
        if weight is not None and self._weight_reported is not None:
            weight = weight - self._weight_reported
        return _mean(self.process.sum(total), num_samples, weight)

    def mark(self) -> None:
        """What was so far has been reported."""
        self._reported, self._num_reported = self.total.clone(), self.num_samples
        self._weight_reported = self.weight

    def state(self) -> dict[str, Any]:
        """The sums of all ranks, one by one: added up they would come back with another last bit."""
        sums = torch.zeros(2, self.process.world_size, dtype=torch.float64, device=self.process.device)
        sums[:, self.process.rank] = torch.stack([self.total, self._reported])
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
        """Go on from there, on any number of ranks."""
        self.total.fill_(self._own(state["sums"]))
        self._reported.fill_(self._own(state["reported"]))
        self.num_samples, self._num_reported = int(state["num_samples"]), int(state["num_reported"])
        self.weight, self._weight_reported = (
            None if (value := state.get(name)) is None else torch.tensor(value, dtype=torch.float64).to(self.total)
            for name in ("weight", "weight_reported")
        )

    def _own(self, sums: list[float]) -> float:
        """This rank's; where there were more or fewer, the first has them all."""
        if len(sums) == self.process.world_size:
            return sums[self.process.rank]
        return sum(sums) if self.process.is_main else 0.0


def _mean(total: Tensor, num_samples: int, weight: Tensor | None) -> float:
    if weight is None:
        return float(total) / num_samples
    return float(total) / float(weight) if float(weight) else 0.0
