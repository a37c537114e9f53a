"""Curves of rates over rates: ROC, precision over recall, how often what was predicted so surely came true; and which
of an evaluation's are drawn in one chart, with the lines that stand out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from statistics import NormalDist

from drivetrain.base.formatting import number
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling.charts.frame import RIGHT, Axis, Frame, figure, key, room_beside, svg, ticks
from drivetrain.telling.content.evaluation import EvaluationFacts, class_of
from drivetrain.telling.content.findings import words
from drivetrain.telling.content.plotted import PlottedCurve

SIDE = 360.0
TOP, BOTTOM = 10.0, 40.0
# Lines that can be told apart by their colours; the others are drawn behind them in grey.
MAX_NAMED = 4
MAX_DOTS = 24
MAX_CHARTS = 12
MAX_OTHERS = 60
# What a curve's area (or its distance from the diagonal) is called, its title, and what the diagonal stands for.
_KINDS = (
    (("roc",), "auroc", "ROC curve (area)", "chance"),
    (("pr", "precision_recall"), "average_precision", "precision over recall (average)", ""),
    (("calibration", "reliability", "reliability_diagram"), "calibration_error", "reliability", "as sure as right"),
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve in the order of its points; `note` is what is said behind its name. `counts` makes points that rest on
    more samples larger; `intervals` are those of each point's y."""

    name: str
    points: Sequence[tuple[float, float]]
    note: str = ""
    counts: Sequence[float] = ()
    intervals: Sequence[tuple[float, float]] = ()


def square_chart(
    title: str,
    lines: Sequence[Line],
    *,
    others: Sequence[Line] = (),
    others_name: str = "",
    x_label: str = "",
    y_label: str = "",
    diagonal: str = "",
    mark: tuple[float, str] | None = None,
    band: tuple[float, float] | None = None,
) -> Markup:
    """`lines` in colours with a legend, `others` in grey behind them; `diagonal` names the line from 0 to 1. `mark` is
    an upright line at an x with its name, and `band` the interval of it."""
    lines = lines[:MAX_NAMED]
    frame = _Frame.around([point for line in (*lines, *others) for point in line.points])
    body: list[Content] = [frame.axes(x_label, y_label)]
    if diagonal:
        body.append(
            el("g", el("title", diagonal), el("line", x1=frame.x(0), y1=frame.y(0), x2=frame.x(1), y2=frame.y(1),
                                              class_="chance"))
        )  # fmt: skip
    if band is not None:
        left, right = (frame.across.inside(end) for end in band)
        body.append(el("rect", el("title", f"interval {number(band[0])} to {number(band[1])}"), x=left, y=TOP,
                       width=right - left, height=frame.up.start - TOP, class_="interval-band"))  # fmt: skip
    if mark is not None:
        at = frame.x(mark[0])
        body.append(
            el("g", el("title", mark[1]), el("line", x1=at, x2=at, y1=TOP, y2=frame.up.start, class_="reference"))
        )
    body += [
        el("g", el("title", line.name), el("path", d=frame.path(line.points), class_="other-line")) for line in others
    ]
    # The first is drawn last, since it matters most.
    body += reversed([_line(frame, place, line) for place, line in enumerate(lines, 1)])
    keys = [key(f"key s{place}", line.name, line.note) for place, line in enumerate(lines, 1)]
    keys += [key("key other", others_name)] if others else []
    keys += [key("rule", mark[1])] if mark else []
    told = "; ".join([*(f"{line.name} {line.note}".rstrip() for line in lines), *([mark[1]] if mark else [])])
    picture = svg(f"{title}: {told}", body, size=(SIDE, SIDE - 40), kind="chart")
    return figure(title, keys, picture, kind="curve square")


def _line(frame: _Frame, place: int, line: Line) -> Markup:
    sized = len(line.counts) == len(line.points) and max(line.counts, default=0) > 0
    shown = [(*point, count) for point, count in zip(line.points, line.counts, strict=True)] if sized else None
    most = max(line.counts, default=1.0)
    ranges = line.intervals if sized and len(line.intervals) == len(line.points) else ()
    marks = [
        el(
            "g",
            el("title", f"{line.name}: {number(y)}{_between_words(each)} at {number(x)}{_on(count)}"),
            el("line", x1=frame.x(x), x2=frame.x(x), y1=frame.y(each[0]), y2=frame.y(each[1]), class_="between")
            if each
            else None,
            el("circle", cx=frame.x(x), cy=frame.y(y), r=8, class_="reach"),
            el("circle", cx=frame.x(x), cy=frame.y(y), r=_radius(count, most), class_="dot"),
        )
        for (x, y, count), each in zip_longest(shown or [(x, y, None) for x, y in frame.apart(line.points)], ranges)
    ]
    name = "curve-line sized" if sized else "curve-line"
    return el("g", el("path", d=frame.path(line.points), class_=name), marks, class_=f"s{place}")


def _between_words(interval: tuple[float, float] | None) -> str:
    return f" ({number(interval[0])} to {number(interval[1])})" if interval else ""


def _on(samples: float | None) -> str:
    return "" if samples is None else f", on {number(int(samples) if samples == int(samples) else samples)} samples"


def _radius(count: float | None, most: float) -> float:
    """The area of a dot is that of its count."""
    return 2.4 if count is None else 1.5 + 6.0 * math.sqrt(count / most)


class _Frame(Frame):
    """The unit square where all values lie in it, else round numbers around them."""

    @classmethod
    def around(cls, points: Sequence[tuple[float, float]]) -> _Frame:
        up = Axis.of(_ticks([y for _, y in points]), SIDE - 40 - BOTTOM, TOP)
        # The name of the axis stands to the left of its labels.
        left = room_beside(text + "   " for _, text in up.marks)
        return cls(Axis.of(_ticks([x for x, _ in points]), left, SIDE - RIGHT), up, SIDE)

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        """A path of the points that can be told apart on the picture."""
        kept: list[tuple[float, float]] = []
        for x, y in points:
            at = (round(self.x(x), 1), round(self.y(y), 1))
            if kept and math.dist(at, kept[-1]) < 1.0:
                continue
            # A point between two others on one level or one column says nothing.
            if len(kept) > 1 and _between(kept[-2], kept[-1], at):
                kept[-1] = at
            else:
                kept.append(at)
        last = (round(self.x(points[-1][0]), 1), round(self.y(points[-1][1]), 1))
        kept += [last] if kept[-1] != last else []
        return "M" + " L".join(f"{x:g},{y:g}" for x, y in kept)

    def apart(self, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """At most MAX_DOTS of the points, as evenly along the curve as they lie."""
        if len(points) <= MAX_DOTS:
            return list(points)
        places = [(self.x(x), self.y(y)) for x, y in points]
        length = sum(math.dist(a, b) for a, b in pairwise(places))
        kept, since = [points[0]], 0.0
        for before, at, point in zip(places, places[1:], points[1:], strict=False):
            since += math.dist(before, at)
            if since >= length / (MAX_DOTS - 2):
                kept.append(point)
                since = 0.0
        return kept[:MAX_DOTS]


def _between(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Return True if b lies on the level or upright line from a to c."""
    level = a[1] == b[1] == c[1] and (a[0] <= b[0] <= c[0] or a[0] >= b[0] >= c[0])
    return level or (a[0] == b[0] == c[0] and (a[1] <= b[1] <= c[1] or a[1] >= b[1] >= c[1]))


def _ticks(values: Sequence[float]) -> list[float]:
    if all(0 <= value <= 1 for value in values):
        return [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    return ticks(min(values), max(values), 5)


def rate_charts(found: EvaluationFacts) -> list[Markup]:
    """One chart a kind of curve: the overall curve and the worst classes in colours, the other classes in grey."""
    groups: dict[str, list[tuple[str, PlottedCurve]]] = {}
    for curve in found.curves:
        if isinstance(curve, PlottedCurve):
            name, each = class_of(curve.name) or (curve.name, "")
            groups.setdefault(name, []).append((each, curve))
    return [_rate_chart(found, name, curves) for name, curves in list(groups.items())[:MAX_CHARTS]]


def _rate_chart(found: EvaluationFacts, name: str, curves: Sequence[tuple[str, PlottedCurve]]) -> Markup:
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
        reach = z * math.sqrt(share * (1 - share) / samples + (z / 2 / samples) ** 2) / (1 + z * z / samples)
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
