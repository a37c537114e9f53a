"""The pictures of a tuning: the objective of each training and the best so far, against each hyperparameter, and epoch
by epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles

from drivetrain.base.formatting import cut, number
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling.charts.charts import BOTTOM, CHARACTER, RIGHT, TOP, bottom_labels, room_beside, tick_text, ticks
from drivetrain.telling.content.tuning import TrainingFacts, TuningFacts

WIDTH, HEIGHT = 360.0, 216.0
WIDE = 1000.0
# From this ratio on, values are drawn by orders of magnitude.
_WIDE_RATIO = 50.0
_STATUS = {"Completed": "", "Stopped": "early", "InProgress": "early"}


@dataclass(frozen=True)
class _Axis:
    """From values to pixels between `start` and `end`; `marks` are (value, text)."""

    low: float
    high: float
    start: float
    end: float
    marks: tuple[tuple[float, str], ...]
    logarithmic: bool = False

    @property
    def left(self) -> float:
        """Where a picture begins whose upright axis this is."""
        return room_beside([text for _, text in self.marks])

    def at(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (value - low) / ((high - low) or 1.0) * (self.end - self.start)


def by_training(tuning: TuningFacts) -> Markup:
    """Each training's objective in the order of the trainings, with the best so far as a line of steps."""
    shown = [one for one in tuning.trainings if one.objective is not None]
    up, off = _objective_axis(tuning, HEIGHT)
    last = max((one.number for one in tuning.trainings), default=1)
    places = [tick for tick in ticks(1, max(last, 2), 8) if 1 <= tick <= last and tick == int(tick)] or [1.0]
    across = _Axis(0.5, last + 0.5, up.left, WIDE - RIGHT, tuple((place, f"{place:.0f}") for place in places))
    best = tuning.best_so_far()
    line: list[str] = []
    for (at, value), (until, _) in zip(best, [*best[1:], (last, 0.0)], strict=True):
        y = up.at(value)
        line += [f"{across.at(at):.1f},{y:.1f}", f"{across.at(max(until, at)):.1f},{y:.1f}"]
    failed = [one for one in tuning.trainings if one.status == "Failed"]
    body: list[Content] = [
        _axes(across, up, "training", WIDE),
        el("path", d="M" + " L".join(line), class_="best-line") if line else None,
        [_dot(tuning, one, across.at(one.number), up) for one in shown],
        [_cross(one, across.at(one.number)) for one in failed],
    ]
    key: list[Content] = [el("span", el("i", class_="key s1"), " best so far", class_="legend")] if line else []
    key += _keys(tuning)
    told = f"{tuning.metric} of {len(tuning.trainings)} trainings" + (f", best {number(best[-1][1])}" if best else "")
    return _figure(f"{tuning.metric} by training", [*key, _off(off)], body, told, WIDE, "wide tuning")


def by_parameter(tuning: TuningFacts, name: str) -> Markup:
    """The objective against one hyperparameter, in the order of its scale."""
    shown = [one for one in tuning.trainings if one.objective is not None and name in one.parameters]
    up, _ = _objective_axis(tuning, HEIGHT)
    # Also of those without an objective: a value whose trainings all failed was tried, and has its place.
    tried = [one.parameters[name] for one in tuning.trainings if name in one.parameters]
    across, place = _parameter_axis(tried, up.left)
    body: list[Content] = [
        _axes(across, up, "", WIDTH),
        [_dot(tuning, one, across.at(place(one.parameters[name])), up) for one in shown],
    ]
    best = tuning.best
    value = None if best is None or name not in best.parameters else _short(best.parameters[name])
    key = None if value is None else el("span", "best at ", el("b", value), class_="legend")
    told = f"{tuning.metric} against {name}" + (f", best at {value}" if value else "")
    return _figure(name, [key], body, told, WIDTH, "curve tuning")


def by_epoch(tuning: TuningFacts) -> Markup | None:
    """The objective of each training as it went on, the best one in colour; None where nothing went on."""
    shown = [one for one in tuning.trainings if one.values]
    if all(len(one.values) < 2 for one in shown):
        return None
    best = tuning.best
    longest = max(len(one.values) for one in shown)
    up, off = _objective_axis(tuning, HEIGHT, [value for one in shown for value in one.values])
    marks = [tick for tick in ticks(1, max(longest, 2), 6) if 1 <= tick <= longest and tick == int(tick)] or [1.0]
    across = _Axis(1, max(longest, 2), up.left, WIDTH - RIGHT, tuple((tick, f"{tick:.0f}") for tick in marks))
    ordered = sorted(shown, key=lambda one: best is not None and one.number == best.number)  # the best above the others
    lines: list[Content] = []
    for one in ordered:
        points = [(across.at(epoch), up.at(value)) for epoch, value in enumerate(one.values, 1)]
        is_best = best is not None and one.number == best.number
        end = points[-1]
        ended = el("circle", cx=end[0], cy=end[1], r=2.6, class_="end") if one.status == "Stopped" else None
        lines.append(
            el(
                "g",
                el("title", _told(tuning, one)),
                el("path", d="M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points), class_="run-line"),
                ended,
                class_="s1 is-best" if is_best else "others",
            )
        )
    body: list[Content] = [_axes(across, up, "epoch", WIDTH), lines]
    key: list[Content] = []
    if best is not None and any(one.number == best.number for one in shown):
        key.append(el("span", el("i", class_="key s1"), f" training {best.label}, the best", class_="legend"))
    if any(one.status == "Stopped" for one in shown):
        key.append(el("span", el("i", class_="ring"), " stopped here", class_="legend"))
    told = f"{tuning.metric} of {len(shown)} trainings, epoch by epoch"
    return _figure(f"{tuning.metric} by epoch", [*key, _off(off)], body, told, WIDTH, "curve tuning")


def _objective_axis(tuning: TuningFacts, height: float, values: Sequence[float] | None = None) -> tuple[_Axis, int]:
    """The scale of the objective, and how many values lie beyond it: a training that went astray would leave no room
    for the others."""
    given = sorted(values or [one.objective for one in tuning.trainings if one.objective is not None])
    kept = given
    if len(given) >= 8:
        first, _, third = quantiles(given, n=4)
        reach = 3 * (third - first)
        kept = [value for value in given if (value >= first - reach if tuning.maximize else value <= third + reach)]
    low, high = (kept[0], kept[-1]) if kept else (0.0, 1.0)
    found = ticks(low, high, 5)
    marks = tuple((tick, tick_text(tick, found)) for tick in found)
    return _Axis(found[0], found[-1], height - BOTTOM, TOP, marks), len(given) - len(kept)


def _parameter_axis(values: Sequence[str], start: float) -> tuple[_Axis, Callable[[str], float]]:
    """The scale of a hyperparameter's values, and where on it a value lies."""
    end = WIDTH - RIGHT
    numbers = [_number(value) for value in values]
    known = [value for value in numbers if value is not None]
    if len(known) < len(values) or not values:
        names = sorted(set(values))
        places = {name: float(place) for place, name in enumerate(names)}
        room = max(int((end - start) / CHARACTER / max(len(names), 1)) - 1, 3)
        marks = tuple((places[name], cut(_short(name), room)) for name in names)
        return _Axis(-0.5, max(len(names) - 0.5, 0.5), start, end, marks), lambda value: places[value]
    low, high = min(known), max(known)
    if low > 0 and high / low >= _WIDE_RATIO:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        marks = tuple((10.0**power, f"{10.0**power:g}") for power in powers)
        axis = _Axis(10.0 ** powers[0], 10.0 ** powers[-1], start, end, marks, logarithmic=True)
    else:
        found = ticks(low, high, 5)
        axis = _Axis(found[0], found[-1], start, end, tuple((tick, tick_text(tick, found)) for tick in found))
    return axis, lambda value: _number(value) or 0.0


def _axes(across: _Axis, up: _Axis, label: str, width: float) -> Markup:
    rows = [
        (
            el("line", x1=up.left, x2=width - RIGHT, y1=up.at(value), y2=up.at(value), class_="grid"),
            el("text", text, x=up.left - 7, y=up.at(value) + 3.5, text_anchor="end"),
        )
        for value, text in up.marks
    ]
    bottom = HEIGHT - BOTTOM
    columns = [
        el("line", x1=across.at(value), x2=across.at(value), y1=bottom, y2=bottom + 4, class_="tick")
        for value, _ in across.marks
    ]
    columns += bottom_labels([(across.at(value), text) for value, text in across.marks], bottom + 16, width)
    middle = (up.left + width - RIGHT) / 2
    return el(
        "g",
        el("g", rows, columns, class_="axis"),
        el("line", x1=up.left, x2=width - RIGHT, y1=bottom, y2=bottom, class_="base"),
        el("text", label, x=middle, y=HEIGHT - 6, text_anchor="middle", class_="axis-label") if label else None,
    )


def _dot(tuning: TuningFacts, one: TrainingFacts, x: float, up: _Axis) -> Markup:
    best = tuning.best
    y = up.at(one.objective or 0.0)
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


def _keys(tuning: TuningFacts) -> list[Content]:
    found: list[Content] = []
    if tuning.best is not None:
        found.append(
            el("span", el("i", class_="ring best"), f" training {tuning.best.label}, the best", class_="legend")
        )
    if any(one.status == "Stopped" for one in tuning.trainings):
        found.append(el("span", el("i", class_="ring"), " stopped early", class_="legend"))
    if any(one.status == "Failed" for one in tuning.trainings):
        found.append(el("span", el("i", "×", class_="cross"), " failed", class_="legend"))
    return found


def _off(count: int) -> Content:
    return el("span", f"{count} beyond the scale, drawn at its edge", class_="legend") if count else None


def _told(tuning: TuningFacts, one: TrainingFacts) -> str:
    value = "" if one.objective is None else f": {tuning.metric} {number(one.objective)}"
    chosen = ", ".join(f"{name} {_short(text)}" for name, text in one.parameters.items())
    why = f"; {one.reason}" if one.reason else ""
    return f"training {one.label}{value} at {chosen}{why}"


def _figure(title: str, keys: Sequence[Content], body: Sequence[Content], told: str, width: float, kind: str) -> Markup:
    picture = el(
        "svg",
        el("title", told),
        body,
        viewBox=f"0 0 {width:.0f} {HEIGHT:.0f}",
        class_="chart",
        role="img",
        aria_label=told,
    )
    return el("figure", el("figcaption", el("b", title), keys), picture, class_=kind)


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
