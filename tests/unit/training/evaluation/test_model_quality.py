"""The forms of SageMaker's own statistics.json."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any, get_args

import pytest

from drivetrain.training.evaluation.document import document as describe
from drivetrain.training.evaluation.model_quality import model_quality
from drivetrain.training.evaluation.settings import Settings
from drivetrain.training.metric_states.result import Evaluation, Group, Measured
from drivetrain.training.task import Kind, Task
from drivetrain.training_scripts.evaluate import write_report


def document(kind: str, **metrics: float) -> dict[str, Any]:
    return {"task": {"kind": kind}, "num_samples": 9, "metrics": {n: {"value": v} for n, v in metrics.items()}}


def test_binary() -> None:
    curves = {
        "confusion_matrix": {"kind": "matrix", "rows": ["0", "1"], "columns": ["0", "1"], "cells": [[1, 2], [0, 1]]},
        "roc_curve": {"kind": "roc", "x": [0.0, 1.0], "y": [0.5, 1.0]},
        "pr_curve": {"kind": "pr", "x": [1.0, 0.0], "y": [0.25, 1.0]},
    }
    measured = document("binary", recall=0.75, specificity=0.5, accuracy=0.5, auroc=0.9, loss=3.0)
    found = model_quality(measured, {"metrics": {"recall": [0.5, None, 1.0], "accuracy": [0.5]}}, curves)
    deviation = statistics.stdev([0.5, 1.0])
    assert found == {
        "version": 0.0,
        "dataset": {"item_count": 9},
        "binary_classification_metrics": {
            "confusion_matrix": {"0": {"0": 1, "1": 2}, "1": {"0": 0, "1": 1}},
            "recall": {"value": 0.75, "standard_deviation": deviation},
            "accuracy": {"value": 0.5},  # of one replicate there is no deviation
            "true_positive_rate": {"value": 0.75, "standard_deviation": deviation},
            "true_negative_rate": {"value": 0.5},
            "false_positive_rate": {"value": 0.5},
            "false_negative_rate": {"value": 0.25, "standard_deviation": deviation},
            "auc": {"value": 0.9},
            "receiver_operating_characteristic_curve": {
                "false_positive_rates": [0.0, 1.0],
                "true_positive_rates": [0.5, 1.0],
            },
            "precision_recall_curve": {"recalls": [1.0, 0.0], "precisions": [0.25, 1.0]},
        },
    }


def test_multiclass_and_regression() -> None:
    found = model_quality(document("multiclass", accuracy=0.9, f1_weighted=0.8, f1_macro=0.7), None, {})
    assert found["multiclass_classification_metrics"] == {
        "accuracy": {"value": 0.9},
        "weighted_f1": {"value": 0.8},
    }
    found = model_quality(document("regression", mae=1.0, r2=-0.5), None, {})
    assert found["regression_metrics"] == {"mae": {"value": 1.0}, "r2": {"value": -0.5}}


@pytest.mark.parametrize("kind", sorted({*get_args(Kind)} - {"binary", "multiclass", "regression"}))
def test_a_task_without_a_form_has_its_metrics_under_our_names(kind: str) -> None:
    measured = document(kind, loss=1.5, perplexity=3.0, iou_class_2=0.5)
    found = model_quality(measured, {"metrics": {"perplexity": [2.0, 4.0]}}, {})
    assert found == {
        "version": 0.0,
        "dataset": {"item_count": 9},
        "metrics": {
            "loss": {"value": 1.5},
            "perplexity": {"value": 3.0, "standard_deviation": statistics.stdev([2.0, 4.0])},
        },
    }


def test_a_task_without_measurements_of_its_form_has_our_names() -> None:
    assert model_quality(document("multiclass", loss=3.0), None, {})["metrics"] == {"loss": {"value": 3.0}}


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_report_has_the_file_that_a_registered_version_names(tmp_path: Path, kind: Kind) -> None:
    whole = Group(num_samples=9, metrics={"loss": Measured(value=0.5), "mae": Measured(value=0.25)}, undefined={})
    result = Evaluation(task=Task(kind, 3), whole=whole, expected_rows=9, collectives=0)
    write_report(tmp_path, describe(result, Settings(), data={}, model={}), result)
    found = json.loads((tmp_path / "model_quality.json").read_text())
    section, entries = list(found.items())[-1]
    assert section == ("regression_metrics" if kind == "regression" else "metrics")
    assert entries["mae"] == {"value": 0.25}


def test_long_curves_are_thinned_and_keep_their_ends() -> None:
    many = [number / 999 for number in range(1000)]
    found = model_quality(document("binary"), None, {"roc_curve": {"x": many, "y": many}})
    rates = found["binary_classification_metrics"]["receiver_operating_characteristic_curve"]
    kept = rates["false_positive_rates"]
    assert len(kept) == 250
    assert (kept[0], kept[-1]) == (0.0, 1.0)
    assert kept == rates["true_positive_rates"] == sorted(kept)
