"""torchmetrics: a collection, whose metrics of one state share it."""

from __future__ import annotations

from typing import Any

import torch
from predictions import Predictions
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC, BinaryPrecisionRecallCurve


def run(process: Any, predictions: Predictions, thresholds: int | None) -> dict[str, Any]:
    collection = MetricCollection(
        {
            "accuracy": BinaryAccuracy(),
            "auroc": BinaryAUROC(thresholds=thresholds),
            "curve": BinaryPrecisionRecallCurve(thresholds=thresholds),
        }
    )
    for scores, targets in predictions.batches:
        collection.update(scores, targets)
    held = {id(tensor): tensor.nbytes for metric in collection.values() for tensor in _tensors(metric.metric_state)}
    found = collection.compute()
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
