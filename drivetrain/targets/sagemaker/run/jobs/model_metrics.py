"""The metrics of Model Monitor's model quality, of a table of answers and true values, and their thresholds.

https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-model-quality-metrics.html
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import arrow, numpy
from drivetrain.data.reading import Table
from drivetrain.targets.sagemaker.run.jobs.monitor_checks import GREATER, LESS

SECTIONS = {
    "Regression": "regression",
    "BinaryClassification": "binary_classification",
    "MulticlassClassification": "multiclass_classification",
}
# More of these is worse; of all others less.
_ERRORS = ("mae", "mse", "rmse", "false_positive_rate", "false_negative_rate")


def model_metrics(table: Table, kind: str, given: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    """The metrics by name ({"value": ...}), and the rows that have an answer and a true value.

    Args:
        kind: the problem's, of SECTIONS.
        given: inference_attribute, probability_attribute, ground_truth_attribute (a column's name or its number from 0)
            and probability_threshold_attribute (0.5 unless given).

    Raises:
        InputError: no such problem or column, texts where numbers are needed, or no row.
    """
    np, pc = numpy(), arrow().compute
    if kind not in SECTIONS:
        raise InputError(f"problem_type is {kind!r}. Allowed: {', '.join(SECTIONS)}.")
    wanted = {
        what: _column(table, given.get(f"{what}_attribute"), what)
        for what in ("inference", "probability", "ground_truth")
    }
    names = {what: name for what, name in wanted.items() if name}
    if "ground_truth" not in names or len(names) < 2:
        raise InputError("give ground_truth_attribute, and inference_attribute or probability_attribute.")
    batches = [batch.select([*names.values()]).drop_null() for _, _, batch in table.batches([*names.values()])]
    rows = arrow().Table.from_batches(batches)
    if not rows.num_rows:
        raise InputError("no row has both an answer and a true value.")

    def numbers(what: str) -> Any:
        try:
            return pc.cast(rows[names[what]], arrow().float64()).to_numpy()
        except arrow().ArrowInvalid:
            raise InputError(f"{what}_attribute: column {names[what]!r} holds texts. Give one of numbers.") from None

    if kind == "Regression":
        found = _regression(numbers("ground_truth"), numbers("inference" if "inference" in names else "probability"))
        return _entries(found), rows.num_rows
    truth = np.array(list(map(_label, rows[names["ground_truth"]].to_pylist())))
    if "inference" in names:
        answers = np.array(list(map(_label, rows[names["inference"]].to_pylist())))
    else:
        positive, threshold = max(set(truth)), float(given.get("probability_threshold_attribute") or 0.5)
        answers = np.where(numbers("probability") >= threshold, positive, min({*truth} - {positive} or {"0"}))
    classes = sorted({*truth.tolist(), *answers.tolist()})
    if kind == "BinaryClassification" and len(classes) > 2:
        raise InputError(f"problem_type is {kind}, and there are {len(classes)} classes: {', '.join(classes[:5])}, ...")
    counts = Counter(zip(truth.tolist(), answers.tolist(), strict=True))
    matrix = {one: {other: counts[one, other] for other in classes} for one in classes}
    if kind == "BinaryClassification":
        found = _binary(truth == classes[-1], answers == classes[-1])
        if "probability" in names:
            found["auc"] = _auc(truth == classes[-1], numbers("probability"))
    else:
        found = _multiclass(truth, answers, classes)
    return {"confusion_matrix": matrix, **_entries(found)}, rows.num_rows


def model_constraints(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Thresholds that the metrics just meet."""
    return {
        name: {"threshold": entry["value"], "comparison_operator": GREATER if name in _ERRORS else LESS}
        for name, entry in metrics.items()
        if "value" in entry
    }


def _column(table: Table, written: str | None, what: str) -> str | None:
    names = table.schema.names
    if not written or written in names:
        return written
    if written.isdigit() and int(written) < len(names):
        return names[int(written)]
    raise InputError(f"{what}_attribute: there is no column {written!r}. There are: {', '.join(names[:20])}.")


def _label(value: Any) -> str:
    """1, 1.0 and "1" are one class."""
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _entries(found: Mapping[str, float]) -> dict[str, Any]:
    return {name: {"value": float(value)} for name, value in found.items() if math.isfinite(value)}


def _regression(truth: Any, answers: Any) -> dict[str, float]:
    error, spread = answers - truth, ((truth - truth.mean()) ** 2).sum()
    mse = float((error**2).mean())
    r2 = 1 - float((error**2).sum()) / float(spread) if spread else math.nan
    return {"mae": float(abs(error).mean()), "mse": mse, "rmse": math.sqrt(mse), "r2": r2}


def _f(beta: float, precision: float, recall: float) -> float:
    return _ratio((1 + beta**2) * precision * recall, beta**2 * precision + recall)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _binary(truth: Any, answers: Any) -> dict[str, float]:
    hit, miss = int((truth & answers).sum()), int((truth & ~answers).sum())
    false, right = int((~truth & answers).sum()), int((~truth & ~answers).sum())
    recall, precision = _ratio(hit, hit + miss), _ratio(hit, hit + false)
    return {
        "recall": recall,
        "precision": precision,
        "accuracy": (hit + right) / len(truth),
        "true_positive_rate": recall,
        "true_negative_rate": _ratio(right, right + false),
        "false_positive_rate": _ratio(false, right + false),
        "false_negative_rate": _ratio(miss, hit + miss),
        **{name: _f(beta, precision, recall) for name, beta in (("f0_5", 0.5), ("f1", 1.0), ("f2", 2.0))},
    }


def _multiclass(truth: Any, answers: Any, classes: list[str]) -> dict[str, float]:
    found = dict.fromkeys(("recall", "precision", "f0_5", "f1", "f2"), 0.0)
    for name in classes:
        of_class, share = _binary(truth == name, answers == name), float((truth == name).mean())
        found = {metric: value + share * of_class[metric] for metric, value in found.items()}
    return {
        "accuracy": float((truth == answers).mean()),
        **{f"weighted_{name}": value for name, value in found.items()},
    }


def _auc(truth: Any, scores: Any) -> float:
    """The area under the ROC curve by ranks, ties counting half."""
    np = numpy()
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    positive, negative = int(truth.sum()), int((~truth).sum())
    return (
        float((ranks[truth].sum() - positive * (positive + 1) / 2) / (positive * negative))
        if positive * negative
        else math.nan
    )
