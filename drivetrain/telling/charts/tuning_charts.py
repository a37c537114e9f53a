"""The pictures of a tuning: the objective of each training and the best so far, against each hyperparameter, and epoch
by epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import quantiles

from drivetrain.base.formatting import cut, number
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling.charts.frame import (
    BOTTOM,
    CHARACTER,
    RIGHT,
    TOP,
    Axis,
    Frame,
    figure,
    key,
    line_through,
    room_beside,
    svg,
    ticks,
)
from drivetrain.telling.content.tuning import TrainingFacts, TuningFacts

WIDTH, HEIGHT = 360.0, 216.0
WIDE = 1000.0
# From this ratio on, values are drawn by orders of magnitude.
_WIDE_RATIO = 50.0
_STATUS = {"Completed": "", "Stopped": "early", "InProgress": "early"}


def by_training(tuning: TuningFacts) -> Markup:
    """Each training's objective in the order of the trainings, with the best so far as a line of steps."""
    shown = [one for one in tuning.trainings if one.objective is not None]
    up, off = _objective_axis(tuning)
    last = max((one.number for one in tuning.trainings), default=1)
    across = Axis(0.5, last + 0.5, _left(up), WIDE - RIGHT, _counts(last, 8))
    best = tuning.best_so_far()
    line: list[tuple[float, float]] = []
    for (at, value), (until, _) in zip(best, [*best[1:], (last, 0.0)], strict=True):
        line += [(across.at(at), up.inside(value)), (across.at(max(until, at)), up.inside(value))]
    failed = [one for one in tuning.trainings if one.status == "Failed"]
    body: list[Content] = [
        Frame(across, up, WIDE).axes("training"),
        el("path", d=line_through(line), class_="best-line") if line else None,
        [_dot(tuning, one, across.at(one.number), up) for one in shown],
        [_cross(one, across.at(one.number)) for one in failed],
    ]
    keys = [key("key s1", "best so far")] if line else []
    told = f"{tuning.metric} of {len(tuning.trainings)} trainings" + (f", best {number(best[-1][1])}" if best else "")
    picture = svg(told, body, size=(WIDE, HEIGHT), kind="chart")
    return figure(f"{tuning.metric} by training", [keys, _keys(tuning), _off(off)], picture, kind="wide tuning")


def by_parameter(tuning: TuningFacts, name: str) -> Markup:
    """The objective against one hyperparameter, in the order of its scale."""
    shown = [one for one in tuning.trainings if one.objective is not None and name in one.parameters]
    up, _ = _objective_axis(tuning)
    # Also of those without an objective: a value whose trainings all failed was tried, and has its place.
    tried = [one.parameters[name] for one in tuning.trainings if name in one.parameters]
    across, place = _parameter_axis(tried, _left(up))
    body: list[Content] = [
        Frame(across, up, WIDTH).axes(""),
        [_dot(tuning, one, across.at(place(one.parameters[name])), up) for one in shown],
    ]
    best = tuning.best
    value = None if best is None or name not in best.parameters else _short(best.parameters[name])
    legend = None if value is None else el("span", "best at ", el("b", value), class_="legend")
    told = f"{tuning.metric} against {name}" + (f", best at {value}" if value else "")
    return figure(name, legend, svg(told, body, size=(WIDTH, HEIGHT), kind="chart"), kind="curve tuning")


def by_epoch(tuning: TuningFacts) -> Markup | None:
    """The objective of each training as it went on, the best one in colour; None where nothing went on."""
    shown = [one for one in tuning.trainings if one.values]
    if all(len(one.values) < 2 for one in shown):
        return None
    best = tuning.best
    longest = max(len(one.values) for one in shown)
    up, off = _objective_axis(tuning, [value for one in shown for value in one.values])
    across = Axis(1, max(longest, 2), _left(up), WIDTH - RIGHT, _counts(longest, 6))
    ordered = sorted(shown, key=lambda one: best is not None and one.number == best.number)  # the best above the others
    lines: list[Content] = []
    for one in ordered:
        points = [(across.at(epoch), up.inside(value)) for epoch, value in enumerate(one.values, 1)]
        is_best = best is not None and one.number == best.number
        end = points[-1]
        ended = el("circle", cx=end[0], cy=end[1], r=2.6, class_="end") if one.status == "Stopped" else None
        lines.append(
            el(
                "g",
                el("title", _told(tuning, one)),
                el("path", d=line_through(points), class_="run-line"),
                ended,
                class_="s1 is-best" if is_best else "others",
            )
        )
    keys: list[Markup] = []
    if best is not None and any(one.number == best.number for one in shown):
        keys.append(key("key s1", f"training {best.label}, the best"))
    if any(one.status == "Stopped" for one in shown):
        keys.append(key("ring", "stopped here"))
    told = f"{tuning.metric} of {len(shown)} trainings, report by report"
    axes = Frame(across, up, WIDTH).axes("report")  # at the end of an epoch, or after some rounds of trees
    picture = svg(told, axes, lines, size=(WIDTH, HEIGHT), kind="chart")
    return figure(f"{tuning.metric} by report", [keys, _off(off)], picture, kind="curve tuning")


def _objective_axis(tuning: TuningFacts, values: Sequence[float] | None = None) -> tuple[Axis, int]:
    """The scale of the objective, and how many values lie beyond it: a training that went astray would leave no room
    for the others."""
    given = sorted(values or [one.objective for one in tuning.trainings if one.objective is not None])
    kept = given
    if len(given) >= 8:
        first, _, third = quantiles(given, n=4)
        reach = 3 * (third - first)
        kept = [value for value in given if (value >= first - reach if tuning.maximize else value <= third + reach)]
    low, high = (kept[0], kept[-1]) if kept else (0.0, 1.0)
    return Axis.of(ticks(low, high, 5), HEIGHT - BOTTOM, TOP), len(given) - len(kept)


def _counts(last: int, about: int) -> list[tuple[float, str]]:
    """Ticks at whole numbers from 1 on."""
    places = [tick for tick in ticks(1, max(last, 2), about) if 1 <= tick <= last and tick == int(tick)] or [1.0]
    return [(place, f"{place:.0f}") for place in places]


def _left(up: Axis) -> float:
    """The left edge of the plot beside this axis."""
    return room_beside(text for _, text in up.marks)


def _parameter_axis(values: Sequence[str], start: float) -> tuple[Axis, Callable[[str], float]]:
    """The scale of a hyperparameter's values, and where on it a value lies."""
    end = WIDTH - RIGHT
    numbers = [_number(value) for value in values]
    known = [value for value in numbers if value is not None]
    if len(known) < len(values) or not values:
        names = sorted(set(values))
        places = {name: float(place) for place, name in enumerate(names)}
        room = max(int((end - start) / CHARACTER / max(len(names), 1)) - 1, 3)
        marks = [(places[name], cut(_short(name), room)) for name in names]
        return Axis(-0.5, max(len(names) - 0.5, 0.5), start, end, marks), lambda value: places[value]
    low, high = min(known), max(known)
    if low > 0 and high / low >= _WIDE_RATIO:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        marks = [(10.0**power, f"{10.0**power:g}") for power in powers]
        axis = Axis(10.0 ** powers[0], 10.0 ** powers[-1], start, end, marks, logarithmic=True)
    else:
        axis = Axis.of(ticks(low, high, 5), start, end)
    return axis, lambda value: _number(value) or 0.0


def _dot(tuning: TuningFacts, one: TrainingFacts, x: float, up: Axis) -> Markup:
    best = tuning.best
    y = up.inside(one.objective or 0.0)
    is_best = best is not None and best.number == one.number
    return el(
        "g",
        el("title", _told(tuning, one)),
        el("circle", cx=x, cy=y, r=9, class_="reach"),
        el("circle", cx=x, cy=y, r=7, class_="best-ring") if is_best else None,
        el("circle", cx=x, cy=y, r=3.4, class_="dot"),
        class_=f"s1 {_STATUS.get(one.status, '')}".rstrip(),
    )


def _cross(one: TrainingFacts, x: float) -> Markup:
    y = HEIGHT - BOTTOM - 7
    return el(
        "g",
        el("title", f"training {one.label} failed: {one.reason}"),
        el("circle", cx=x, cy=y, r=9, class_="reach"),
        el("path", d=f"M{x - 3.5:.1f},{y - 3.5:.1f} l7,7 m0,-7 l-7,7", class_="failed"),
    )


def _keys(tuning: TuningFacts) -> list[Markup]:
    keys: list[Markup] = []
    if tuning.best is not None:
        keys.append(key("ring best", f"training {tuning.best.label}, the best"))
    if any(one.status == "Stopped" for one in tuning.trainings):
        keys.append(key("ring", "stopped early"))
    if any(one.status == "Failed" for one in tuning.trainings):
        keys.append(key("cross", "failed", sign="×"))
    return keys


def _off(count: int) -> Content:
    return el("span", f"{count} beyond the scale, drawn at its edge", class_="legend") if count else None


def _told(tuning: TuningFacts, one: TrainingFacts) -> str:
    value = "" if one.objective is None else f": {tuning.metric} {number(one.objective)}"
    chosen = ", ".join(f"{name} {_short(text)}" for name, text in one.parameters.items())
    why = f"; {one.reason}" if one.reason else ""
    return f"training {one.label}{value} at {chosen}{why}"


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _short(text: str) -> str:
    """A value as people write it: `0.03124`, and `adam` for the JSON text "adam"."""
    value = _number(text)
    if value is None:
        return text.strip('"')
    return text if len(text) <= 6 else number(value)
