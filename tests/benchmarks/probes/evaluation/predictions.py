"""The predictions that all tools are given: those of a binary classifier, as float32 of a sigmoid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

BATCH = 10_000


@dataclass(frozen=True)
class Predictions:
    """One rank's share, from row `first` on."""

    first: int
    num_samples: int
    """Of all ranks."""
    batches: list[tuple[torch.Tensor, torch.Tensor]]
    """Scores, float32 [n], and targets, int64 [n]."""

    @classmethod
    def of(cls, process: Any, num_samples: int) -> Predictions:
        scores, targets = drawn(num_samples)
        share = slice(*(num_samples * place // process.world_size for place in (process.rank, process.rank + 1)))
        own = [torch.from_numpy(column[share].copy()).split(BATCH) for column in (scores, targets)]
        return cls(share.start, num_samples, list(zip(*own, strict=True)))


def drawn(num_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of two normal distributions that overlap: an AUROC of about 0.92."""
    random = np.random.default_rng(0)
    targets = (random.random(num_samples) < 0.5).astype(np.int64)
    logits = 2 * random.normal(size=num_samples) + 2 * (2 * targets - 1)
    return (1 / (1 + np.exp(-logits))).astype(np.float32), targets


def exact_area(num_samples: int) -> float:
    """The share of pairs that a positive wins, a tie counting half: in whole numbers."""
    scores, targets = drawn(num_samples)
    positives, negatives = np.sort(scores[targets == 1]), np.sort(scores[targets == 0])
    below, reached = (np.searchsorted(negatives, positives, side) for side in ("left", "right"))
    return (int(below.sum()) + int(reached.sum())) / (2 * len(positives) * len(negatives))
