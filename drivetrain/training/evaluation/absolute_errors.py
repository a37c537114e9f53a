"""The median and the 90 % quantile of a regression's absolute error, beside its means.

Their intervals hold for every distribution, where those of means hold if no rarer, larger errors exist.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from drivetrain.base.order_statistics import enclosing
from drivetrain.training.metric_states.result import Evaluation

QUANTILES = {"median": 0.5, "quantile_90": 0.9}


def absolute_errors(result: Evaluation) -> dict[str, dict[str, Any]]:
    """Name -> value, low and high, or why there is no interval; empty where the rows say nothing of them: there was no
    bootstrap, `mae` was not measured, or there are several outputs."""
    if (
        result.rows is None
        or result.bootstrap is None
        or (result.task.kind, result.task.num_classes) != ("regression", 1)
    ):
        return {}
    form = json.loads(result.rows.arrays["about"].tobytes())["metrics"].get("mae") if result.rows.arrays else None
    if form is None:
        return {}
    errors = np.sort(result.rows.arrays[f"column_{form['column']}"].astype(np.float64))
    found: dict[str, dict[str, Any]] = {}
    for name, share in QUANTILES.items():
        ends = enclosing(len(errors), share, result.bootstrap.confidence) if len(errors) else None
        entry: dict[str, Any] = {"value": float(np.quantile(errors, share))} if len(errors) else {}
        if result.whole.num_keys is not None:
            entry["no_interval"] = "samples share keys"
        elif ends is None:
            entry["no_interval"] = f"too few samples: {len(errors)}"
        else:
            entry |= {"low": float(errors[ends[0]]), "high": float(errors[ends[1]])}
        found[name] = entry
    return found
