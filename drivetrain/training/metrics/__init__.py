"""Metrics: one file each, found by its name; the contract is drivetrain.training.metric.

Files whose names begin with an underscore are what several of them share.
"""

from __future__ import annotations

from collections.abc import Mapping

from drivetrain.training.metric import Kind

DEFAULTS: Mapping[Kind, tuple[str, ...]] = {
    "multiclass": (
        "accuracy",
        "balanced_accuracy",
        "f1",
        "mcc",
        "auroc",
        "log_loss",
        "calibration_error",
        "confusion_matrix",
    ),
    "binary": (
        "accuracy",
        "precision",
        "recall",
        "f1",
        "mcc",
        "auroc",
        "average_precision",
        "roc_curve",
        "pr_curve",
        "log_loss",
        "brier",
        "calibration_error",
        "confusion_matrix",
    ),
    "multilabel": ("accuracy", "precision", "recall", "f1", "auroc", "average_precision"),
    "regression": ("mae", "mse", "rmse", "r2"),
    "tokens": ("perplexity",),
    "segmentation": ("accuracy", "iou", "dice", "confusion_matrix"),
    "values": (),
}
"""What is counted where nobody names metrics, besides the loss and the recipe's own."""
