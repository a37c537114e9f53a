"""A profile in the form of SageMaker Model Monitor: statistics.json and constraints.json.

The numbers are those of our own profile. The schemas are the service's, and so are the defaults of `monitoring_config`:
https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-byoc-constraints.html
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from drivetrain.data.arrow import numpy

if TYPE_CHECKING:
    from drivetrain.data.profile import Profile

INTEGRAL, FRACTIONAL, STRING = "Integral", "Fractional", "String"
CONFIG: dict[str, Any] = {
    "evaluate_constraints": "Enabled",
    "emit_metrics": "Enabled",
    "datatype_check_threshold": 1.0,
    "domain_content_threshold": 1.0,
    "distribution_constraints": {
        "perform_comparison": "Enabled",
        "comparison_threshold": 0.1,
        "comparison_method": "Robust",
    },
}
_BUCKETS = 10


def statistics(profile: Profile) -> dict[str, Any]:
    """The content of statistics.json. Histograms of numbers have 10 bins from the least to the greatest value; texts
    have one where their values are listed."""
    features: list[dict[str, Any]] = []
    found = profile.statistics
    for place, (name, kind) in enumerate(zip(profile.columns, profile.kinds, strict=True)):
        missing = int(profile.arrays["nulls"][place])
        common = {"num_present": profile.rows - missing, "num_missing": missing}
        entry: dict[str, Any] = {"name": name, "inferred_type": inferred(profile, place)}
        if kind == "number":
            numbers = {
                "mean": found["mean"][place],
                "sum": profile.arrays["mean"][place] * profile.arrays["count"][place],
                "std_dev": found["std"][place],
                "min": profile.arrays["min"][place],
                "max": profile.arrays["max"][place],
            }
            entry["numerical_statistics"] = {
                "common": common,
                **{key: finite(float(value)) for key, value in numbers.items()},
                "distribution": {"kll": {"buckets": _buckets(profile, name, numbers["min"], numbers["max"])}},
            }
        else:
            distinct = float(profile.arrays["distinct"][place])
            known: dict[str, Any] = {} if math.isnan(distinct) else {"distinct_count": distinct}
            if name in profile.values:
                values = [{"value": str(value), "count": rows} for value, rows in profile.values[name].items()]
                known["distribution"] = {"categorical": {"buckets": values}}
            entry["string_statistics"] = {"common": common, **known}
        features.append(entry)
    return {"version": 0.0, "dataset": {"item_count": profile.rows}, "features": features}


def constraints(profile: Profile) -> dict[str, Any]:
    """The content of constraints.json, as the profile suggests it."""
    features: list[dict[str, Any]] = []
    for place, name in enumerate(profile.columns):
        nulls = float(profile.arrays["nulls"][place])
        entry: dict[str, Any] = {
            "name": name,
            "inferred_type": inferred(profile, place),
            "completeness": 1 - nulls / profile.rows if profile.rows else 0.0,
        }
        if entry["inferred_type"] != STRING:
            entry["num_constraints"] = {"is_non_negative": bool(profile.arrays["min"][place] >= 0)}
        elif name in profile.values:
            entry["string_constraints"] = {"domains": [str(value) for value in profile.values[name]]}
        features.append(entry)
    return {"version": 0.0, "features": features, "monitoring_config": CONFIG}


def inferred(profile: Profile, place: int) -> str:
    """Model Monitor's name of a column's type."""
    if profile.kinds[place] != "number":
        return STRING
    return INTEGRAL if "int" in profile.types[place] else FRACTIONAL


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _buckets(profile: Profile, name: str, low: float, high: float) -> list[dict[str, float]]:
    if not math.isfinite(high - low):
        return []
    edges = numpy().linspace(low, high, _BUCKETS + 1 if high > low else 2).tolist()
    counts = profile.histogram({name: edges})[name].tolist()
    return [
        {"lower_bound": below, "upper_bound": above, "count": rows}
        for below, above, rows in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
