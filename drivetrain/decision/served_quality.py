"""The quality of an approved version on served rows, beside what its evaluation on the test set promised.

Both are measured on different rows, so their difference has the interval of two independent samples. A drop is one that
is surely larger than the user allows: each look has its share of the false findings of a year.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import InputError, and_more, did_you_mean
from drivetrain.base.formatting import number
from drivetrain.base.json_text import list_in
from drivetrain.data.arrow import Array, arrow, numpy
from drivetrain.decision.differences import FEWEST_OUTCOMES
from drivetrain.decision.formatting import count
from drivetrain.decision.intervals import Estimate, of_independent, of_mean
from drivetrain.decision.row_forms import Mean

if TYPE_CHECKING:
    from drivetrain.decision.evaluation import Evaluation, Measured
    from drivetrain.decision.rows import Rows


@dataclass(frozen=True, kw_only=True)
class Quality:
    """A metric on the labelled rows, and what was promised."""

    metric: str
    rows: int
    """Labelled ones."""
    promised: Measured
    measured: Measured | None = None
    """None where the labelled rows do not define it."""
    surely: float | None = None
    """The least drop that the interval allows, in the direction in which the metric is worse; negative where it may
    have risen. None where nothing is judged, and `why` says so."""
    dropped: bool = False
    why: str = ""
    """One sentence."""


def understood(labels: Array, task: Mapping[str, Any]) -> Array:
    """Labels as evaluate reads them, null where the task does not have one: a text is the name of a class, a number its
    place; labels of a regression are finite numbers.

    Args:
        task: of the evaluation: `kind`, `class_names` and `num_classes`.
    """
    pa, kind, compute = arrow(), task.get("kind"), arrow().compute
    is_text = pa.types.is_string(labels.type) or pa.types.is_large_string(labels.type)
    is_number = any(each(labels.type) for each in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean))
    if kind not in ("regression", "binary", "multiclass") or not (is_text or is_number):
        return labels
    if kind == "regression":
        values = pa.array([_number(each) for each in labels.to_pylist()]) if is_text else labels.cast("float64")
        return compute.if_else(compute.is_finite(values), values, None)
    places = range(int(task.get("num_classes") or 0))
    known = [str(each) for each in list_in(task, "class_names") or places] if is_text else list(map(float, places))
    values = labels if is_text else labels.cast("float64")
    return compute.if_else(compute.is_in(values, value_set=pa.array(known, values.type)), labels, None)


def labels_of(task: Mapping[str, Any]) -> str:
    """The labels of a task, for people."""
    if task.get("kind") == "regression":
        return "finite numbers"
    return and_more(list_in(task, "class_names") or range(int(task.get("num_classes") or 0)), 12)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def promised_by(evaluation: Evaluation, metric: str) -> Measured:
    """The metric of the report by which a version was approved.

    Raises:
        InputError: the report has no such metric, or it has no direction.
    """
    known = evaluation.whole.metrics
    if metric not in known:
        raise InputError(f"metric: {evaluation.source} has no {metric!r}. {did_you_mean(metric, list(known))}")
    if known[metric].higher_is_better is None:
        raise InputError(f"metric: neither more nor less {metric} is better, so it cannot drop. Give another one.")
    return known[metric]


def judged_quality(
    served: Evaluation, promised: Evaluation, metric: str, *, level: float, max_drop: float, min_labels: int
) -> Quality:
    """Compare a metric on labelled rows with what was promised.

    Args:
        level: of this look: how often chance alone may find a drop of more than `max_drop` where it is just that.
        max_drop: in the metric's own unit.
        min_labels: fewer labelled rows are not judged.

    Raises:
        InputError: as `promised_by`.
    """
    before, rows = promised_by(promised, metric), served.whole.num_samples
    now = served.whole.metrics.get(metric)
    found = Quality(metric=metric, rows=rows, promised=before, measured=now)
    if now is None:
        undefined = served.whole.undefined.get(metric, "it has no value")
        return replace(found, why=f"{metric} of {count(rows, 'labelled row')} is not defined: {undefined}")
    told = f"{metric} of {count(rows, 'labelled row')} is {_told(now)}; {_told(before)} was promised"
    if rows < min_labels:
        return replace(found, why=f"{told}. It is judged from {min_labels:,} labelled rows on")
    sides = [estimate_of(each.evidence, metric, each.whole.metrics[metric].value) for each in (served, promised)]
    if sides[0] is None or sides[1] is None:
        which = "the labelled rows" if sides[1] else "the report by which it was approved"
        return replace(found, why=f"{told}. It is not judged: {which} say too little of it row by row")
    drop = of_independent(sides[1], sides[0]) if before.higher_is_better else of_independent(sides[0], sides[1])
    surely = drop.low(level) - before.bound - now.bound
    dropped = surely > max_drop
    verdict = f"surely worse by {number(surely)}" if surely > 0 else "not surely worse"
    limit = f" (allowed {number(max_drop)})" if max_drop or dropped else ""
    return replace(found, surely=surely, dropped=dropped, why=f"{told}: {verdict}{limit}")


def estimate_of(rows: Rows | None, metric: str, value: float) -> Estimate | None:
    """The estimate of one model's metric; None where its rows say nothing of it, or too few do."""
    said = None if rows is None else rows.said(metric)
    if rows is None or said is None:
        return None
    np, units, most = numpy(), said.changes, 0.0
    # As of_mean does with differences, two rows are added that did not occur: as far away as a row of a share can be.
    if not isinstance(rows.forms[metric], Mean) and 0 <= value <= 1:
        most = max(value, 1 - value)
    positive = rows.positive(metric)
    if positive is not None and min(positive.sum(), (~positive).sum()) < FEWEST_OUTCOMES:
        return None
    if rows.keyed:
        keys, numbers = np.unique(rows.keys[said.places], return_inverse=True)
        units = np.bincount(numbers.reshape(-1), units, len(keys))
    found = of_mean(value, units * (len(units) / rows.num_rows), most)
    return found and replace(found, of_errors=isinstance(rows.forms[metric], Mean))


def _told(measured: Measured) -> str:
    if measured.low is None or measured.high is None:
        return number(measured.value)
    return f"{number(measured.value)} ({number(measured.low)} to {number(measured.high)})"


def record(found: Quality) -> Mapping[str, float | str | None]:
    """The part of a look's record that is about it."""
    now = found.measured
    return {
        "metric": found.metric,
        "labelled": found.rows,
        "value": None if now is None else now.value,
        "low": None if now is None else now.low,
        "high": None if now is None else now.high,
        "promised": found.promised.value,
        "promised_low": found.promised.low,
        "promised_high": found.promised.high,
        "surely_worse_by": found.surely,
    }
