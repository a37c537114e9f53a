"""Choose the curves of an evaluation that are drawn in one chart, and the lines that stand out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist

from drivetrain.base.formatting import number
from drivetrain.base.markup import Markup
from drivetrain.telling.charts.square_chart import MAX_NAMED, Line, square_chart
from drivetrain.telling.content.evaluation import EvaluationFacts
from drivetrain.telling.content.findings import words
from drivetrain.telling.content.plotted import PlottedCurve

MAX_CHARTS = 12
MAX_OTHERS = 60
_PER_CLASS = re.compile(r"^(.+?)_class_(.+)$")
# What a curve's area (or its distance from the diagonal) is called, its title, and what the diagonal stands for.
_KINDS = (
    (("roc",), "auroc", "ROC curve (area)", "chance"),
    (("pr", "precision_recall"), "average_precision", "precision over recall (average)", ""),
    (("calibration", "reliability", "reliability_diagram"), "calibration_error", "reliability", "as sure as right"),
)


def rate_charts(found: EvaluationFacts) -> list[Markup]:
    """One chart a kind of curve: the overall curve and the worst classes in colours, the other classes in grey."""
    groups: dict[str, list[tuple[str, PlottedCurve]]] = {}
    for curve in found.curves:
        if isinstance(curve, PlottedCurve):
            match = _PER_CLASS.match(curve.name)
            name, each = (match[1], match[2]) if match else (curve.name, "")
            groups.setdefault(name, []).append((each, curve))
    return [_chart(found, name, curves) for name, curves in list(groups.items())[:MAX_CHARTS]]


def _chart(found: EvaluationFacts, name: str, curves: Sequence[tuple[str, PlottedCurve]]) -> Markup:
    measure, title, diagonal = _kind(name, curves[0][1].kind)
    scored = [(_score(found, measure, each), each, curve) for each, curve in curves]
    lower_is_worse = measure != "calibration_error"
    # The overall curve first, then the classes from the worst to the best; those without a score at the end.
    scored.sort(key=lambda entry: (bool(entry[1]), entry[0] is None, (entry[0] or 0.0) * (1 if lower_is_worse else -1)))
    named = scored if len(scored) <= MAX_NAMED else scored[: MAX_NAMED - 1]
    others = scored[len(named) :]
    labelled = len(scored) > 1

    def line(score: float | None, each: str, curve: PlottedCurve) -> Line:
        said = "" if score is None else number(score)
        of = f"class {found.class_name(each)}" if each == found.class_name(each) else found.class_name(each)
        overall = "overall" if labelled else words(measure or name)
        return Line(
            name=of if each else overall,
            points=curve.points,
            note=said,
            counts=curve.counts,
            intervals=_intervals(curve, found.confidence or 0.95),
        )

    first = curves[0][1]
    rest = f"{len(others):,} other classes" + (f", {MAX_OTHERS} of them drawn" if len(others) > MAX_OTHERS else "")
    return square_chart(
        (title if any(one[0] is not None for one in named) else title.partition(" (")[0]) or words(name),
        [line(*entry) for entry in named],
        others=[line(*entry) for entry in others[:MAX_OTHERS]],
        others_name=rest,
        x_label=words(first.x_label),
        y_label=words(first.y_label),
        diagonal=diagonal,
    )


def _intervals(curve: PlottedCurve, confidence: float) -> list[tuple[float, float]]:
    """Intervals of a reliability diagram: of each point's share of its samples (E. Wilson, "Probable Inference, the
    Law of Succession, and Statistical Inference", 1927)."""
    z = NormalDist().inv_cdf((1 + confidence) / 2) if 0 < confidence < 1 else 0.0
    found: list[tuple[float, float]] = []
    for (_, share), samples in zip(curve.points, curve.counts, strict=False):
        if not samples or not 0 <= share <= 1:
            return []
        middle = (share + z * z / 2 / samples) / (1 + z * z / samples)
        reach = z * sqrt(share * (1 - share) / samples + (z / 2 / samples) ** 2) / (1 + z * z / samples)
        # Rounding apart, the ends are 0 and 1 where no sample, and each, is one.
        found.append((max(middle - reach, 0.0) if share else 0.0, min(middle + reach, 1.0) if share < 1 else 1.0))
    return found


def _kind(name: str, kind: str) -> tuple[str, str, str]:
    """The metric, the title and the name of the diagonal of a kind of curve."""
    base = kind or name
    for kinds, measure, title, diagonal in _KINDS:
        if base in kinds or base.removesuffix("_curve") in kinds or name.removesuffix("_curve") in kinds:
            return measure, title, diagonal
    return "", "", ""


def _score(found: EvaluationFacts, measure: str, each: str) -> float | None:
    names = [f"{measure}_class_{each}"] if each else [measure, f"{measure}_micro"]
    return next((found.measures[name].value for name in names if name in found.measures), None)
