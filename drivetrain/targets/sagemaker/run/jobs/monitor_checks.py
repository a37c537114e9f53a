"""The checks of Model Monitor: of a profile by a data quality baseline, and of metrics by a model quality baseline.

Model Monitor's engine is closed, so these are the documented checks with our own numbers. A column's type is that of
all of its values (`datatype_check_threshold` is not used), and distributions are always compared by the largest
difference (LInfinity). `Robust` subtracts 1.8 sqrt((n + m) / (n m)) from it, as Deequ does.
https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-interpreting-violations.html
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from drivetrain.base.json_text import list_in, object_in
from drivetrain.data.arrow import numpy
from drivetrain.data.profile import Profile
from drivetrain.decision.model_monitor import CONFIG, FRACTIONAL, INTEGRAL, inferred

Json = Mapping[str, Any]
_ROUNDING = 1e-9
LESS, GREATER = "LessThanThreshold", "GreaterThanThreshold"


def data_violations(profile: Profile, constraints: Json, statistics: Json) -> list[dict[str, str]]:
    """The violations of a baseline, the entries of constraint_violations.json.

    Args:
        constraints, statistics: the content of the baseline's files; without statistics no distribution is compared.
    """
    config = {**CONFIG, **object_in(constraints, "monitoring_config")}
    if config["evaluate_constraints"] != "Enabled":
        return []
    known = {each.get("name"): each for each in list_in(statistics, "features")}
    expected = {str(each.get("name")): each for each in list_in(constraints, "features")}
    found = [
        {"feature_name": name, "constraint_check_type": check, "description": said}
        for name, feature in expected.items()
        for check, said in _of_column(profile, name, feature, known.get(name, {}), config)
    ]
    return found + [
        {
            "feature_name": name,
            "constraint_check_type": "extra_column_check",
            "description": f"this column is not in the baseline, which has {len(expected)} columns",
        }
        for name in profile.columns
        if name not in expected
    ]


def metric_violations(metrics: Json, constraints: Json) -> list[dict[str, str]]:
    """The metrics that are beyond a baseline's thresholds.

    Args:
        metrics: as statistics.json has them, {"mae": {"value": ...}, ...}.
        constraints: {"mae": {"threshold": ..., "comparison_operator": "GreaterThanThreshold"}, ...}.
    """
    found: list[dict[str, str]] = []
    for name, limit in constraints.items():
        value, threshold, operator = (
            metrics.get(name, {}).get("value"),
            limit["threshold"],
            limit["comparison_operator"],
        )
        if value is None or not (value < threshold if operator == LESS else value > threshold):
            continue
        said = f"Metric {name} with {value:g} was {operator} '{threshold:g}'"
        found.append({"metric_name": name, "constraint_check_type": operator, "description": said})
    return found


def _of_column(profile: Profile, name: str, feature: Json, known: Json, config: Json) -> Iterator[tuple[str, str]]:
    if name not in profile.places:
        yield "missing_column_check", "this column is in the baseline, and not in these data"
        return
    place = profile.places[name]
    present = profile.rows - float(profile.arrays["nulls"][place])
    kind, wanted = inferred(profile, place), feature.get("inferred_type", "Unknown")
    if present and wanted != "Unknown" and kind != wanted and (kind, wanted) != (INTEGRAL, FRACTIONAL):
        yield "data_type_check", f"Expected data type: {wanted}. Observed: {kind}"
    complete, least = present / profile.rows if profile.rows else 0.0, feature.get("completeness")
    if least is not None and complete < least - _ROUNDING:
        yield "completeness_check", f"Completeness is {complete:g}, and {least:g} in the baseline"
    domain = list_in(object_in(feature, "string_constraints"), "domains")
    if domain and present:
        listed = profile.values.get(name, {})
        inside = sum(rows for value, rows in listed.items() if str(value) in domain) / present
        if inside < config["domain_content_threshold"] - _ROUNDING:
            few = f"only {inside:.4%} of the values are in the baseline's domain of {len(domain)}"
            yield "categorical_values_check", few if listed else f"too many values for a domain of {len(domain)}"
    limits = {**object_in(CONFIG, "distribution_constraints"), **object_in(config, "distribution_constraints")}
    if limits["perform_comparison"] == "Enabled" and present:
        apart = _distance(profile, name, known, robust=str(limits["comparison_method"]).lower().endswith("robust"))
        threshold = limits["comparison_threshold"]
        if "string_statistics" in known:
            threshold = limits.get("categorical_comparison_threshold", threshold)
        if apart > threshold:
            yield "baseline_drift_check", f"Baseline drift distance: {apart:.4g} exceeds threshold: {threshold:g}"


def _distance(profile: Profile, name: str, known: Json, *, robust: bool) -> float:
    """The largest difference of both distribution functions, or of the shares of values; 0 where one is not known."""
    np = numpy()
    numbers, texts = (
        object_in(object_in(known, f"{kind}_statistics"), "distribution") for kind in ("numerical", "string")
    )
    is_number = profile.kinds[profile.places[name]] == "number"
    if is_number and (buckets := list_in(object_in(numbers, "kll"), "buckets")):
        counts = np.array([each["count"] for each in buckets], "float64")
        edges = [-math.inf, *(each["upper_bound"] for each in buckets[:-1]), math.inf]
        rows = profile.histogram({name: edges})[name]
    elif (values := list_in(object_in(texts, "categorical"), "buckets")) and name in profile.values:
        before = {str(each["value"]): float(each["count"]) for each in values}
        now = {str(value): float(each) for value, each in profile.values[name].items()}
        counts, rows = (np.array([side.get(value, 0.0) for value in before | now]) for side in (before, now))
    else:
        return 0.0
    n, m = counts.sum(), rows.sum()
    if not n or not m:
        return 0.0
    differences = counts / n - rows / m
    apart = np.abs(np.cumsum(differences) if is_number else differences).max()
    return float(max(apart - 1.8 * math.sqrt((n + m) / (n * m)), 0.0) if robust else apart)
