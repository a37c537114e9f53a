"""Metrics as a table: value, error bound, confidence interval as numbers and as a small bar, advice."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import count
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import Cell, scrolled, table
from drivetrain.telling.charts.frame import Axis, svg, tick_text, ticks
from drivetrain.telling.content.evaluation import EvaluationFacts, Measure, interval_words, value_words
from drivetrain.telling.content.findings import natural, words

MAX_OPEN = 16
MAX_FOLDED = 300
MAX_CLASSES = 200
MAX_COLUMNS = 12
BAR_WIDTH, BAR_HEIGHT = 150.0, 14.0
# The groups of metrics, in their order.
_RATES, _HIGHER, _LOWER = "Higher is better", "Higher is better, each on a scale of its own", "Lower is better"
_OTHER = "No direction is known to be better"
_TITLES = (_RATES, _HIGHER, _LOWER, _OTHER)


def metric_table(found: Sequence[Measure], confidence: float | None) -> Content:
    """The first MAX_OPEN metrics, and the others folded away."""
    intervals = any(one.interval for one in found)
    shown, folded = found[:MAX_OPEN], found[MAX_OPEN : MAX_OPEN + MAX_FOLDED]
    tables = _table(shown, confidence, intervals)
    if not folded:
        return tables
    told = count(len(found) - MAX_OPEN, "more metric")
    if len(found) > MAX_OPEN + MAX_FOLDED:
        told += f", the first {MAX_FOLDED} of them"
    return [tables, el("details", el("summary", told), _table(folded, confidence, intervals))]


def _table(found: Sequence[Measure], confidence: float | None, intervals: bool) -> Markup:
    share = f"{confidence * 100:.4g} % interval" if confidence is not None else "interval"
    names = ("metric", "value", share, "")[: 4 if intervals else 2]
    heads = [el("th", name, scope="col", class_="right" if name == "value" else None) for name in names if name]
    head = el("tr", heads, el("td") if intervals else None)
    bodies: list[Markup] = []
    groups = [(title, [one for one in found if _title(one) == title]) for title in _TITLES]
    groups = [(title, group) for title, group in groups if group]
    for title, group in groups:
        scale = _scale(group) if all(map(_is_rate, group)) else None
        rows = [_row(one, scale or _own_scale(one), intervals) for one in group]
        if intervals and (len(groups) > 1 or title != _OTHER):
            between = f"{tick_text(scale[0], scale)} to {tick_text(scale[1], scale)}" if scale else "each from 0"
            rows.insert(0, el("tr", el("td", title, colspan=3), el("td", between, class_="scale"), class_="group"))
        bodies.append(el("tbody", rows))
    return scrolled(el("table", el("thead", head), bodies, class_="metrics"))


def _row(measure: Measure, scale: tuple[float, float], intervals: bool) -> Markup:
    advice = el("small", measure.advice) if measure.advice else None
    cells: list[Content] = [
        el("th", words(measure.name), advice, scope="row"),
        el("td", value_words(measure), class_="right", title=repr(measure.value)),
    ]
    if intervals:
        cells += [el("td", interval_words(measure) or "–"), el("td", _bar(measure, scale))]
    return el("tr", cells)


def _is_rate(measure: Measure) -> bool:
    ends = (measure.value, *(measure.interval or ()))
    return measure.higher_is_better is True and all(0 <= end <= 1 for end in ends)


def _title(measure: Measure) -> str:
    """The title of a metric's group: by its own word on which way it is better, and never by its scale."""
    if measure.higher_is_better is None:
        return _OTHER
    return (_RATES if _is_rate(measure) else _HIGHER) if measure.higher_is_better else _LOWER


def _scale(found: Sequence[Measure]) -> tuple[float, float]:
    """One scale for all of them: from a round number below the lowest to 1."""
    lowest = min(end for one in found for end in (one.value, *(one.interval or ())))
    return max(ticks(lowest, 1.0, 4)[0], 0.0) if lowest < 1 else 0.0, 1.0


def _own_scale(measure: Measure) -> tuple[float, float]:
    """From 0 to its upper end: how wide an interval is beside the value."""
    ends = (0.0, measure.value, *(measure.interval or ()))
    return min(ends), max(ends)


def _bar(measure: Measure, scale: tuple[float, float]) -> Markup | None:
    if measure.interval is None or not measure.is_drawable:
        return None
    axis = Axis(*scale, 4, BAR_WIDTH - 4, ())
    left, right = map(axis.at, measure.interval)
    middle = BAR_HEIGHT / 2
    label = f"{words(measure.name)}: {value_words(measure)}, interval {interval_words(measure)}"
    body = (
        el("rect", x=0, y=middle - 3, width=BAR_WIDTH, height=6, rx=3, class_="track"),
        # An interval of no width is still a mark.
        el("rect", x=left, y=middle - 3, width=max(right - left, 1.5), height=6, rx=3, class_="span"),
        el("circle", cx=axis.at(measure.value), cy=middle, r=3.6, class_="mark"),
    )
    size = (BAR_WIDTH, BAR_HEIGHT)
    return svg(label, body, size=size, kind="chart interval", width=BAR_WIDTH, height=BAR_HEIGHT)


def class_table(found: EvaluationFacts) -> Markup | None:
    """A row a class, a column a metric; None where no metric is one class's."""
    by_class = found.by_class()
    names = list(by_class)[:MAX_COLUMNS]
    classes = list(dict.fromkeys(each for name in names for each in by_class[name]))
    if not classes:
        return None
    rows = [
        (
            found.class_name(each),
            *(
                Cell("–", title=found.undefined.get(f"{name}_class_{each}")) if one is None else value_cell(one)
                for name in names
                for one in [by_class[name].get(each)]
            ),
        )
        for each in sorted(classes, key=natural)[:MAX_CLASSES]
    ]
    more = f"The first {MAX_CLASSES} of {len(classes):,} classes" if len(classes) > MAX_CLASSES else None
    head = ["class", *map(words, names)]
    summary = f"By class: {count(len(names), 'metric')} of {count(len(classes), 'class', 'classes')}"
    made = table(head, rows, right=range(1, len(head)), caption=more, style="metrics")
    return el("details", el("summary", summary), scrolled(made))


def value_cell(measure: Measure) -> Cell:
    """A value, with its interval for the pointer that rests on it."""
    return Cell(value_words(measure), title=interval_words(measure) or None)
