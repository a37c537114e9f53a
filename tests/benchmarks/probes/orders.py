"""CPU microseconds that each kind of order takes for the indices of a batch of 64, in the run of a training.

Prints {kind: microseconds}.
"""

from __future__ import annotations

import json
import time

import numpy as np

from drivetrain.training.input_pipeline.cursor import Order, StreamOrder, WeightedOrder

BATCH, STEPS = 64, 3000
KINDS = {
    "uniform, 1,437 samples": Order(1437, BATCH, seed=1),
    "uniform, 10^9 samples": Order(10**9, BATCH, seed=1),
    "weighted, 10^6 samples": WeightedOrder(np.random.default_rng(0).random(10**6), BATCH, seed=1),
    "streamed, 10^6 samples in windows of 10,000": StreamOrder([62_500] * 16, 10_000, BATCH, seed=1),
}


def microseconds(order: Order) -> float:
    consumed, begun = 0, time.process_time()
    for _ in range(STEPS):
        consumed += len(order.batch(consumed))
    return 1e6 * (time.process_time() - begun) / STEPS


if __name__ == "__main__":
    print(json.dumps({name: microseconds(order) for name, order in KINDS.items()}))
