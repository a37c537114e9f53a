"""Make evaluation.json, bootstrap.json and metrics.json from the counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drivetrain.base.order_statistics import enclosing
from drivetrain.registry.report_hash import EVALUATION_FORMAT
from drivetrain.training.evaluation.files import BOOTSTRAP_FILE, ROWS_FILE
from drivetrain.training.evaluation.settings import Settings
from drivetrain.training.metric import HasExact, Metric
from drivetrain.training.metric_states.result import Evaluation, Group, Measured

OF_A_CLASS = "_class_"
"""In the name of a number of a single class (`f1_class_3`)."""


def document(
    result: Evaluation,
    settings: Settings,
    *,
    data: Mapping[str, Any],
    model: Mapping[str, Any],
    loss: str = "",
    notes: Sequence[str] = (),
    found_slices: Mapping[str, Any] | None = None,
    costs: Mapping[str, float] | None = None,
    processes: int = 1,
    hosts: int = 1,
) -> dict[str, Any]:
    """evaluation.json (docs/evaluation.md describes it).

    Args:
        data: what was measured on: content_hash, rows, key.
        model: what was measured: content_hash, recipe, step, and of answers their hash.
        loss: what the loss is, where it is not the recipe's own.
        notes: sentences about the results.
        found_slices: the result of the search for slices (search.py).
        costs: of errors, where the evaluation went by some.
        processes: of each host.
    """
    task, bootstrap = result.task, result.bootstrap
    return {
        "format": EVALUATION_FORMAT,
        "num_samples": result.num_samples,
        "task": {
            "kind": task.kind,
            "num_classes": task.num_classes,
            "class_names": list(task.class_names),
            **({"threshold": task.threshold} if task.threshold != 0.5 else {}),
        },
        **({"loss": loss} if loss else {}),
        "data": dict(data),
        "model": dict(model),
        "settings": {
            "metrics": settings.scoring,
            "mode": settings.mode,
            "slices": settings.sliced_by,
            **({"fairness": settings.groups} if settings.groups else {}),
            **(costs or {}),
            "batch_size": settings.batch_size,
            "strategy": settings.strategy,
            "strategy_options": settings.strategy_options,
            "threads": settings.threads,
            "processes": processes,
            "hosts": hosts,
        },
        "collectives": result.collectives,
        "coverage": {"rows": result.expected_rows, "counted": result.num_samples},
        **_group(result.whole),
        **({"notes": list(notes)} if notes else {}),
        **({"found_slices": dict(found_slices)} if found_slices is not None else {}),
        **({"absolute_error": errors} if (errors := absolute_errors(result)) else {}),
        "slices": [
            {"column": one.column, "value": one.value, "num_samples": one.num_samples, **_group(one)}
            for one in result.slices
        ],
        "bootstrap": bootstrap
        and {
            "replicates": bootstrap.replicates,
            "seed": bootstrap.seed,
            "confidence": bootstrap.confidence,
            "by": bootstrap.by,
            "file": BOOTSTRAP_FILE,
        },
        "rows": result.rows and {"file": ROWS_FILE, "left_out": list(result.rows.left_out)},
    }


def replicates(result: Evaluation) -> dict[str, Any] | None:
    """bootstrap.json: what each replicate came to. Replicate b of one test set has the same weights for every model.

    `bounds` has the metrics with inexact replicates: the largest distance of a replicate from its true value.
    """
    if result.bootstrap is None:
        return None
    return {
        **_replicates(result.whole),
        "slices": [{"column": one.column, "value": one.value, **_replicates(one)} for one in result.slices],
    }


def numbers(result: Evaluation, metrics: Mapping[str, Metric]) -> dict[str, float]:
    """metrics.json: what a pipeline decides on. Beside a number that may have a bound stands the bound.

    Args:
        metrics: what was asked for, under the names of the results.
    """
    with_bound = {name for name, metric in metrics.items() if isinstance(metric, HasExact)}
    found: dict[str, float] = {"num_samples": result.num_samples}
    for name, measured in result.whole.metrics.items():
        found[name] = measured.value
        if OF_A_CLASS not in name and (measured.bound or owner(name, with_bound)):
            found[f"{name}_bound"] = measured.bound
    return found


def owner(result: str, names: Mapping[str, Any] | set[str]) -> str | None:
    """The metric that a result belongs to: `f1_macro` to `f1`; None if to none of them."""
    owners = [name for name in names if result == name or result.startswith(f"{name}_")]
    return max(owners, key=len, default=None)


def _group(group: Group) -> dict[str, Any]:
    return {
        **({} if group.num_keys is None else {"num_keys": group.num_keys}),
        "metrics": {name: _entry(measured) for name, measured in group.metrics.items()},
        "undefined": dict(group.undefined),
    }


def _replicates(group: Group) -> dict[str, Any]:
    return {
        "metrics": {name: list(values) for name, values in group.replicates.items()},
        "bounds": dict(group.bounds),
    }


def _entry(measured: Measured) -> dict[str, Any]:
    entry: dict[str, Any] = {"value": measured.value, "bound": measured.bound}
    if measured.low is not None and measured.high is not None:
        entry |= {"low": measured.low, "high": measured.high}
        if measured.unless:
            entry["unless"] = measured.unless
        if measured.interval_bound:
            entry["interval_bound"] = measured.interval_bound
    elif measured.no_interval:
        entry["no_interval"] = measured.no_interval
    entry["higher_is_better"] = measured.higher_is_better
    return {**entry, "advice": measured.advice} if measured.advice else entry


QUANTILES = {"median": 0.5, "quantile_90": 0.9}


def absolute_errors(result: Evaluation) -> dict[str, dict[str, Any]]:
    """The median and the 90 % quantile of a regression's absolute error: name -> value, low and high, or why there is
    no interval. These hold for every distribution, where those of means hold if no rarer, larger errors exist.

    Empty where the rows say nothing of them: there was no bootstrap, `mae` was not measured, or there are several
    outputs.
    """
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
