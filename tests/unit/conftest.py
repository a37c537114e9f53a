"""An evaluation and a decision as evaluate and compare write them, for those that show them; small prepared data."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CLASSES = ("cat", "dog", "owl")


def measure(value: float, by: float = 0.01, *, higher: bool | None = True, bound: float = 0.0) -> dict[str, Any]:
    return {"value": value, "bound": bound, "low": value - by, "high": value + by, "higher_is_better": higher}


@pytest.fixture
def evaluation_json() -> dict[str, Any]:
    metrics = {
        "loss": measure(0.25, 0.05, higher=False),
        "accuracy": measure(0.9),
        "f1_macro": measure(0.88),
        "auroc_macro": {**measure(0.97, bound=2e-6), "advice": "the scores are saturated: use mode=exact"},
        "mae": measure(12_345.678, 100.0, higher=False),
    }
    for place in range(3):
        metrics[f"f1_class_{place}"] = measure(0.85 + 0.03 * place)
        metrics[f"auroc_class_{place}"] = measure(0.99 - 0.02 * place, 0.005, bound=2e-6)
    slices = [
        {
            "column": "site",
            "value": value,
            "num_samples": 40,
            "metrics": {"accuracy": measure(accuracy, 0.03), "loss": measure(0.3, higher=False)},
            "undefined": {"f1_macro": "one class only"},
        }
        for value, accuracy in (("north", 0.95), ("south", 0.71), ("east", 0.9))
    ]
    return {
        "format": 2,
        "num_samples": 360,
        "task": {"kind": "multiclass", "num_classes": 3, "class_names": list(CLASSES)},
        "data": {"content_hash": "e" * 64, "rows": 360, "key": "id"},
        "model": {"content_hash": "a" * 64, "recipe": "digits_cnn", "step": 460},
        "settings": {"metrics": "", "mode": "histogram", "slices": ["site"], "strategy": "ddp", "processes": 2},
        "collectives": 1,
        "coverage": {"rows": 360, "counted": 360},
        "metrics": metrics,
        "undefined": {"auroc_class_7": "no sample of class 7"},
        "slices": slices,
        "bootstrap": {"replicates": 200, "seed": 0, "confidence": 0.95, "by": "id", "file": "bootstrap.json"},
    }


@pytest.fixture
def curves_json() -> dict[str, Any]:
    rates = [place / 20 for place in range(21)]
    labels = {"x_label": "false positive rate", "y_label": "true positive rate"}
    curves: dict[str, Any] = {
        f"roc_curve_class_{each}": {"kind": "roc", "x": rates, "y": [x ** (0.1 + each / 10) for x in rates], **labels}
        for each in range(3)
    }
    reliability = {"kind": "reliability", "x": [0.2, 0.5, 0.8], "y": [0.1, 0.5, 0.9], "counts": [10, 40, 310]}
    curves["calibration_error"] = reliability
    curves["confusion_matrix"] = {
        "kind": "matrix",
        "rows": list(CLASSES),
        "columns": list(CLASSES),
        "cells": [[118, 2, 0], [5, 110, 5], [0, 0, 120]],
    }
    return curves


@pytest.fixture
def decision_json() -> dict[str, Any]:
    return {
        "format": 1,
        "verdict": "register",
        "why": ["accuracy is 0.9000 against 0.8500 of version 2."],
        "group": "digits",
        "registry": "local:.drivetrain/ledger.db",
        "candidate": {
            "content_hash": "a" * 64,
            "metrics": {"loss": measure(0.25, higher=False), "accuracy": measure(0.9)},
        },
        "champion": {
            "version": 2,
            "content_hash": "b" * 64,
            "metrics": {"loss": measure(0.2, higher=False), "accuracy": measure(0.85)},
        },
        "metric": "accuracy",
        "higher_is_better": True,
        "rule": {"name": "better", "margin": 0.0, "confidence": 0.95},
        "difference": {
            **{"value": 0.05, "bound": 0.0, "low": 0.02, "high": 0.08},
            **{"confidence": 0.95, "method": "t and Hall"},
        },
        "differences": [
            {"metric": "accuracy", "slice": None, "value": 0.05, "low": 0.02, "high": 0.08},
            {"metric": "loss", "slice": None, "value": 0.05, "low": 0.01, "high": 0.09},
            {"metric": "accuracy", "slice": "site=south", "value": -0.03, "low": -0.06, "high": 0.01},
            {"metric": "accuracy", "slice": "site=east", "value": 0.04, "low": 0.0, "high": 0.08},
        ],
        "floors": [
            {"metric": "accuracy", "slice": None, "least": 0.8, "value": 0.9, "met": True, "higher_is_better": True},
            {"metric": "loss", "slice": None, "least": 0.3, "value": 0.25, "met": True, "higher_is_better": False},
        ],
        "regressions": [
            {"metric": "accuracy", "slice": "site=south", "difference": -0.03, "budget": 0.04, "within": True}
        ],
        "data": {"content_hash": "e" * 64, "rows": 360},
        "already_registered": None,
    }


@pytest.fixture
def findings(
    tmp_path: Path, evaluation_json: dict[str, Any], curves_json: dict[str, Any], decision_json: dict[str, Any]
) -> Callable[..., Path]:
    """Writes `report` and `decision` into a folder, as the outputs of the two components."""

    def write(folder: Path | None = None) -> Path:
        place = folder or tmp_path / "build"
        for name, content in (
            ("report/evaluation.json", evaluation_json),
            ("report/curves.json", curves_json),
            ("decision/decision.json", decision_json),
        ):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(json.dumps(content), encoding="utf-8")
        return place

    return write


@pytest.fixture(scope="session")
def prepared_data() -> ModuleType:
    """As in tests/distributed."""
    path = Path(__file__).parents[1] / "distributed" / "prepared_data.py"
    spec = importlib.util.spec_from_file_location("prepared_data", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
