"""torcheval: a collection that is brought together on every rank."""

from __future__ import annotations

from typing import Any

import torch
from predictions import Predictions
from torcheval.metrics import BinaryAccuracy, BinaryAUROC, BinaryPrecisionRecallCurve
from torcheval.metrics.toolkit import sync_and_compute_collection


def run(process: Any, predictions: Predictions) -> dict[str, Any]:
    metrics = {"accuracy": BinaryAccuracy(), "auroc": BinaryAUROC(), "curve": BinaryPrecisionRecallCurve()}
    for scores, targets in predictions.batches:
        for metric in metrics.values():
            metric.update(scores, targets)
    held = {id(tensor): tensor.nbytes for metric in metrics.values() for tensor in _tensors(metric.state_dict())}
    found: Any = sync_and_compute_collection(metrics)
    assert len(found["curve"][0]) > 100
    return {
        "accuracy": float(found["accuracy"]),
        "auroc": float(found["auroc"]),
        "bound": None,
        "held": sum(held.values()),
    }


def _tensors(state: dict[str, Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in state.values():
        found += value if isinstance(value, list) else [value]
    return found
