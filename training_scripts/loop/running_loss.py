"""The training loss while it is being summed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from drivetrain.training_scripts.process import Process


class RunningLoss:
    """The mean loss a sample over all ranks. Sums stay on the device; only what returns a number waits for the others,
    and every rank must ask for it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.total = torch.zeros((), dtype=torch.float64, device=process.device)
        self.num_samples = 0
        self.start_epoch()

    def start_epoch(self) -> None:
        self.total.zero_()
        self.num_samples = 0
        self._reported, self._num_reported = self.total.clone(), 0

    def add(self, summed_loss: Tensor, num_global_samples: int) -> None:
        """A step's sum over this rank's samples, shape [], and the number of samples over all ranks."""
        self.total += summed_loss
        self.num_samples += num_global_samples

    def of_epoch(self) -> float:
        """The mean since the epoch started."""
        return float(self.process.sum(self.total)) / self.num_samples

    def since_last(self) -> float:
        """The mean since the last `mark`, or since the epoch started."""
        total, num_samples = self.total - self._reported, self.num_samples - self._num_reported
        return float(self.process.sum(total)) / num_samples

    def mark(self) -> None:
        """What was so far has been reported."""
        self._reported, self._num_reported = self.total.clone(), self.num_samples

    def state(self) -> dict[str, Any]:
        """The sums of all ranks, one by one: added up they would come back with another last bit."""
        sums = torch.zeros(2, self.process.world_size, dtype=torch.float64, device=self.process.device)
        sums[:, self.process.rank] = torch.stack([self.total, self._reported])
        total, reported = self.process.sum(sums).tolist()
        return {
            "sums": total,
            "num_samples": self.num_samples,
            "reported": reported,
            "num_reported": self._num_reported,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from there, on any number of ranks."""
        self.total.fill_(self._own(state["sums"]))
        self._reported.fill_(self._own(state["reported"]))
        self.num_samples, self._num_reported = int(state["num_samples"]), int(state["num_reported"])

    def _own(self, sums: list[float]) -> float:
        """This rank's; where there were more or fewer, the first has them all."""
        if len(sums) == self.process.world_size:
            return sums[self.process.rank]
        return sum(sums) if self.process.is_main else 0.0
