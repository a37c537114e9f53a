"""Choose the metrics that are drawn in one chart, and their axis."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from drivetrain.base.formatting import count, duration
from drivetrain.base.markup import Markup
from drivetrain.telling.charts.charts import Cut, Series, bar_chart, line_chart
from drivetrain.telling.content import Curve, Measured
from drivetrain.telling.content.findings import per_class, words
from drivetrain.telling.content.goodput import Break, JobTimes, breaks

# train_loss and validation_loss are two curves of one chart.
_SPLIT = re.compile(
    r"^(train|training|validation|val|valid|eval|test)[_/:.-](.+)$|^(.+)[_/:.-](train|validation|test)$"
)
# Numbers to place others by, not to draw.
_POSITIONS = ("epoch", "step")
MAX_BARS = 40


def training_charts(
    curves: Iterable[Curve], *, over_time: bool = False, job_times: Iterable[JobTimes] = ()
) -> list[Markup]:
    """One chart a step and measure, losses first; over the training's steps where the log says them, over epochs where
    they were logged as a metric, else over time. A measure with a single value is a number, and drawn nowhere.
    Interruptions are marked where steps or seconds are the axis."""
    broken = {times.step: breaks(times) for times in job_times}
    groups: dict[tuple[str, str], list[Series]] = {}
    positions: dict[str, tuple[str, Curve]] = {}
    listed = list(curves)
    for curve in listed:
        if curve.name in _POSITIONS and (curve.step not in positions or curve.name == "epoch"):
            positions[curve.step] = curve.name, curve
    labels = {} if over_time else {step: name for step, (name, _) in positions.items()}
    for curve in drawn_curves(listed):
        split, measure = _split(curve.name)
        groups.setdefault((curve.step, measure), []).append(Series(split, _placed(curve, positions, over_time)))
        if curve.positions and not over_time:
            labels[curve.step] = f"step of {curve.step}"
    steps = {step for step, _ in groups}
    charts: list[Markup] = []
    for step, measure in sorted(groups, key=lambda key: (key[0], _rank(key[1]), key[1])):
        label = labels.get(step, f"seconds since {step} started")
        title = f"{words(measure)} of {step}" if len(steps) > 1 else words(measure)
        found = broken.get(step, [])
        cuts = [] if step in labels and not label.startswith("step of ") else _cuts(found, by_step=step in labels)
        charts.append(line_chart(title, groups[step, measure], x_label=label, cuts=cuts, cuts_note=_lost_in_all(found)))
    return charts


def drawn_curves(curves: Iterable[Curve]) -> list[Curve]:
    """Those of several values that are no mere positions."""
    return [curve for curve in curves if curve.name not in _POSITIONS and len(curve.points) > 1]


def _cuts(found: Iterable[Break], *, by_step: bool) -> list[Cut]:
    places = ((one.at_step if by_step else one.at_second, one) for one in found)
    return [Cut(place, _break_words(one)) for place, one in places if place is not None]


def _break_words(one: Break) -> str:
    where = "interrupted" if one.at_step is None else f"interrupted at step {one.at_step:,}"
    again = "" if one.steps_lost is None else f", {count(one.steps_lost, 'step')} taken again"
    return f"{where}: {'an unknown time' if one.lost is None else duration(one.lost)} lost{again}"


def _lost_in_all(found: Sequence[Break]) -> str:
    lost = [one.lost for one in found]
    known = math.fsum(each for each in lost if each is not None)
    told = f", {'at least ' if None in lost else ''}{duration(known)} lost" if known else ""
    return count(len(found), "interruption") + told


def class_charts(measured: Iterable[Measured]) -> list[Markup]:
    """One bar chart for each number that a step returned for every class (`accuracy_class_3`)."""
    charts: list[Markup] = []
    for one in measured:
        for name, bars in per_class(one).items():
            more = f", the first {MAX_BARS} of {len(bars)} classes" if len(bars) > MAX_BARS else ""
            charts.append(bar_chart(f"{words(name)} by class{more}", bars[:MAX_BARS]))
    return charts


def _split(name: str) -> tuple[str, str]:
    """`train_loss` -> (`train`, `loss`); a name without a split is its own measure."""
    match = _SPLIT.match(name)
    if match is None:
        return words(name), name
    return (match[1], match[2]) if match[1] else (match[4], match[3])


def _rank(measure: str) -> int:
    return next((place for place, word in enumerate(("loss", "accuracy")) if word in measure), 2)


def _placed(curve: Curve, positions: dict[str, tuple[str, Curve]], over_time: bool) -> tuple[tuple[float, float], ...]:
    """The points over their steps; or over the epoch (or step) that had last been logged when they were."""
    if over_time:
        return curve.points
    if curve.positions:
        return over_steps(curve)
    if curve.step not in positions:
        return curve.points
    logged: Sequence[tuple[float, float]] = positions[curve.step][1].points
    times = [seconds for seconds, _ in logged]
    placed = [(logged[max(bisect_right(times, at) - 1, 0)][1], value) for at, value in curve.points]
    # Of several values at one place the last counts.
    return tuple(sorted(dict(placed).items()))


def over_steps(curve: Curve) -> tuple[tuple[float, float], ...]:
    """The points over the training's steps; of steps that were logged again after an interruption the last value
    counts."""
    values = (value for _, value in curve.points)
    return tuple(sorted(dict(zip(curve.positions, values, strict=True)).items()))
