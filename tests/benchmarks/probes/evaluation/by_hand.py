"""What nobody can leave out: counting into a histogram of our size, and one all_reduce of it."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from predictions import Predictions

from drivetrain.training.metric_states.ranking.score_histogram import FINEST, number_of_bins

BINS = number_of_bins(FINEST)


def run(process: Any, predictions: Predictions) -> dict[str, Any]:
    """Even bins, without a bound or a check of anything."""
    cells = [(scores * (BINS - 1)).to(torch.int64) + targets * BINS for scores, targets in predictions.batches]
    counts = torch.bincount(torch.cat(cells), minlength=2 * BINS)
    held = counts.nbytes
    dist.all_reduce(counts)
    negatives, positives = counts.view(2, BINS)
    half = BINS // 2
    right = int(positives[half:].sum() + negatives[:half].sum())
    below = negatives.cumsum(0) - negatives
    wins = int((positives * (2 * below + negatives)).sum())
    pairs = 2 * int(positives.sum()) * int(negatives.sum())
    return {"accuracy": right / predictions.num_samples, "auroc": wins / pairs, "bound": None, "held": held}
