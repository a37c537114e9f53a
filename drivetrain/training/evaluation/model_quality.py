"""An evaluation as SageMaker's model-quality statistics, so that Studio and Model Monitor show it.

The forms are those of the service's own statistics.json
(docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-model-quality-metrics.html). A deviation that is not known is
left out, where the service writes the text "NaN". A form has only entries that it names; other metrics are in
evaluation.json. If the service has no form for a task, or no metric of the form was measured, there is one block
`metrics` with entries of the same shape under our own names: a version may name the file for any task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import stdev
from typing import Any

from drivetrain.training.evaluation.document import OF_A_CLASS

# The service's name -> ours.
_BINARY = {
    "recall": "recall",
    "precision": "precision",
    "accuracy": "accuracy",
    "true_positive_rate": "recall",
    "true_negative_rate": "specificity",
    "f1": "f1",
    "auc": "auroc",
}
_MULTICLASS = {
    "accuracy": "accuracy",
    "weighted_recall": "recall_weighted",
    "weighted_precision": "precision_weighted",
    "weighted_f1": "f1_weighted",
}
_REGRESSION = {"mae": "mae", "mse": "mse", "rmse": "rmse", "r2": "r2"}
# What is one minus another.
_COMPLEMENTS = {"false_positive_rate": "specificity", "false_negative_rate": "recall"}
_SECTIONS = {
    "binary": ("binary_classification_metrics", _BINARY),
    "multiclass": ("multiclass_classification_metrics", _MULTICLASS),
    "regression": ("regression_metrics", _REGRESSION),
}
_OTHERS = "metrics"
# Of a curve; the service's own have a few hundred.
_MAX_POINTS = 250


def model_quality(
    document: Mapping[str, Any], bootstrap: Mapping[str, Any] | None, curves: Mapping[str, Any]
) -> dict[str, Any]:
    """The file's content.

    Args:
        document: what evaluation.json holds.
        bootstrap: what bootstrap.json holds; its deviations are the standard deviations.
        curves: what curves.json holds.
    """
    metrics: Mapping[str, Any] = document["metrics"]
    replicates: Mapping[str, Sequence[float | None]] = (bootstrap or {}).get("metrics", {})
    section, forms = _SECTIONS.get(document["task"]["kind"], (_OTHERS, {}))
    found = _form(section, forms, metrics, replicates, curves) if forms else {}
    if not found:
        section = _OTHERS
        found = {
            name: _entry(measured["value"], replicates.get(name, ()))
            for name, measured in metrics.items()
            if OF_A_CLASS not in name
        }
    return {"version": 0.0, "dataset": {"item_count": document["num_samples"]}, section: found}


def _form(
    section: str,
    forms: Mapping[str, str],
    metrics: Mapping[str, Any],
    replicates: Mapping[str, Sequence[float | None]],
    curves: Mapping[str, Any],
) -> dict[str, Any]:
    """The measured values in one of the service's forms."""
    found: dict[str, Any] = {}
    if matrix := curves.get("confusion_matrix"):
        found["confusion_matrix"] = {
            str(row): dict(zip(map(str, matrix["columns"]), cells, strict=True))
            for row, cells in zip(matrix["rows"], matrix["cells"], strict=True)
        }
    for theirs, ours in forms.items():
        if ours in metrics:
            found[theirs] = _entry(metrics[ours]["value"], replicates.get(ours, ()))
    if section == "binary_classification_metrics":
        for theirs, ours in _COMPLEMENTS.items():
            if ours in metrics:
                found[theirs] = _entry(1.0 - metrics[ours]["value"], replicates.get(ours, ()))
        for curve, theirs, x, y in (
            ("roc_curve", "receiver_operating_characteristic_curve", "false_positive_rates", "true_positive_rates"),
            ("pr_curve", "precision_recall_curve", "recalls", "precisions"),
        ):
            if curve in curves:
                found[theirs] = {x: _thinned(curves[curve]["x"]), y: _thinned(curves[curve]["y"])}
    return found


def _entry(value: float, replicates: Sequence[float | None]) -> dict[str, float]:
    known = [each for each in replicates if each is not None]
    deviation = stdev(known) if len(known) > 1 else math.nan
    return {"value": value, **({"standard_deviation": deviation} if math.isfinite(deviation) else {})}


def _thinned(values: Sequence[float]) -> list[float]:
    """At most so many of them, evenly, with both ends."""
    if len(values) <= _MAX_POINTS:
        return list(values)
    last = len(values) - 1
    return [values[round(place * last / (_MAX_POINTS - 1))] for place in range(_MAX_POINTS)]
