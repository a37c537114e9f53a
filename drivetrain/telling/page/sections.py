"""The sections that nearly every run has. The steps: each with its time on the run's, and why it did what it did.
What the run was given: what has changed since the run before first, all the rest folded; and how to go on from it.
The numbers that steps returned: a table a step, and of a ForEach one chart a number, a point an item.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drivetrain.base.formatting import count, duration, number, status_class, status_word
from drivetrain.base.markup import Content, Markup, el, escape
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.reasons import in_a_line
from drivetrain.telling import Cell, Row, scrolled, section, table
from drivetrain.telling.content import Measured, RunFacts
from drivetrain.telling.content.findings import overall, per_class, words
from drivetrain.telling.content.given import shown_value

MAX_VALUE_CHARACTERS = 400
# Of a ForEach with more steps of iterations than this, the others are folded.
MAX_OPEN = 12
_WENT_WELL = ("Succeeded", "Cached")
Address = Callable[[str], str] | None


def steps_section(run: RunFacts, address: Address = None) -> Markup:
    """All steps, with links where they have addresses. Of a ForEach with many iterations the table has what did not go
    well, or the first ones, and the rest is below it, folded."""
    inner: dict[str, list[StepRun]] = {}
    for step in run.steps:
        if step.parent is not None:
            inner.setdefault(step.parent, []).append(step)
    folded = {loop: steps for loop, steps in inner.items() if len(steps) > MAX_OPEN}
    shown = {loop: _first(steps) for loop, steps in folded.items()}
    top = [step for step in run.steps if step.parent not in folded or step in shown[step.parent]]
    return section(
        "Steps",
        _table(run, top, address),
        [
            el("details", el("summary", _all(run, loop, steps)), _table(run, steps, address), class_="iterations")
            for loop, steps in folded.items()
        ],
        id="steps",
    )


def status_mark(status: str) -> Markup:
    """A status in its colour."""
    return el("span", status_word(status), class_=f"status {status_class(status)}")


def short_value(value: Any) -> Markup:
    """A value as text, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return escape(text if len(text) <= MAX_VALUE_CHARACTERS else text[: MAX_VALUE_CHARACTERS - 1] + "…")


def _first(steps: Sequence[StepRun]) -> list[StepRun]:
    """Those that a reader looks for: what did not go well, or is at work; else the first."""
    found = [step for step in steps if step.status not in (*_WENT_WELL, "Waiting", "NotExecuted")]
    return found[:MAX_OPEN] or list(steps[:3])


def _all(run: RunFacts, loop: str, steps: Sequence[StepRun]) -> str:
    title = next((step.title for step in run.steps if step.name == loop), loop)
    well = sum(step.status in _WENT_WELL for step in steps)
    more = "" if well == len(steps) else f", {well} of them succeeded"
    return f"{title}: all {count(len(steps), 'step')} of its iterations{more}"


def _table(run: RunFacts, steps: Sequence[StepRun], address: Address) -> Markup:
    start = run.started
    end = max([run.ended or run.written, *(step.ended or start for step in run.steps)])
    total = max(end - start, 1e-9)
    rows = [_step(step, start, total, run.written, address) for step in steps]
    return scrolled(table(("Step", "Status", "Time", "When", "Tries", "Why"), rows, style="steps stacked"))


def _step(step: StepRun, start: float, total: float, now: float, address: Address) -> Row:
    timeline = None
    if step.started is not None and step.status not in ("Cached", "NotExecuted"):
        ended = step.ended if step.ended is not None else now
        left = min(max((step.started - start) / total * 100, 0.0), 99.0)
        # A step of a moment is still a mark.
        width = max(min((ended - step.started) / total * 100, 100 - left), 1.0)
        words_of_it = f"from {duration(step.started - start)} to {duration(ended - start)}"
        timeline = el(
            "span", el("i", style=f"left:{left:.2f}%;width:{width:.2f}%"), class_="timeline", role="img",
            aria_label=words_of_it, title=words_of_it,
        )  # fmt: skip
    notes: list[Content] = [step.said] if step.said else []
    if step.cache_of:
        notes.append(["taken from ", el("code", step.cache_of)])
    if step.status not in ("Failed", "Stopped"):  # beside a failure it would read as the cause
        notes += step.why
    # Of a failed step the top of the page tells it in full; of iterations it tells some, and the table goes by item.
    if step.reason and (step.status != "Failed" or step.parent is not None):
        notes.append(in_a_line(step.reason))
    below = step.type if step.title == step.name else f"{step.name} · {step.type}"
    title = step.title if address is None else el("a", step.title, href=address(step.name))
    of_an_iteration = step.parent is not None
    if of_an_iteration and step.item is not None:
        notes.insert(0, ["for ", el("code", short_value(step.item))])
    took = duration(step.seconds) if step.status not in ("Cached", "NotExecuted", "Waiting") else "–"
    cells = (
        Cell([el("b", title), el("small", below)], "inner" if of_an_iteration else None),
        status_mark(step.shown_status),
        _or_dash(took),
        timeline,
        _or_dash(step.attempts or "–", "tries"),
        [el("div", note) for note in notes],
    )
    return Row(cells, status_class(step.shown_status))


def _or_dash(content: str | int, name: str | None = None) -> Cell:
    """A cell; a phone leaves out the dash of one without a value."""
    return Cell(content, "none" if content == "–" else None, name=name)


# So few values need no folding.
FEW = 8


def parameters_section(run: RunFacts) -> Markup | None:
    """The parameters of the pipeline and the settings of its steps; None without any."""
    tables = [_value_table("Of the pipeline", run.parameters)] if run.parameters else []
    own = [(step, _value_table(f"Of {step.title}", step.settings)) for step in run.steps if step.settings]
    tables += [table for step, table in own if step.parent is None]
    inner = [table for step, table in own if step.parent is not None]
    if not tables and not inner:
        return None
    total = len(run.parameters) + sum(len(step.settings) for step in run.steps if step.parent is None)
    every: Content = el("div", tables, class_="values")
    if total > FEW:
        every = el("details", el("summary", f"All {count(total, 'value')}"), every)
    iterations = el("details", el("summary", "Of the steps of iterations"), el("div", inner, class_="values"))
    return section("Parameters", _changed(run), every, iterations if inner else None, id="parameters")


def commands_section(run: RunFacts) -> Markup | None:
    """How to go on from here."""
    if not run.commands:
        return None
    rows = [(el("dt", words), el("dd", el("code", command))) for words, command in run.commands]
    return section("Commands", el("dl", rows, class_="facts"), id="commands")


def _changed(run: RunFacts) -> Content:
    if run.changed is None:
        return None
    before = el("code", run.changed.since)
    if not run.changed.values:
        return el("p", "The same values as in the run before, ", before, ".")
    rows = [
        (name, *(el("code", short_value(shown_value(each))) for each in values))
        for name, values in run.changed.values.items()
    ]
    caption = ["Changed since the run before, ", before]
    return scrolled(table(("Value", "Before", "Now"), rows, caption=caption), label="Changed values")


def _value_table(caption: str, values: Mapping[str, Any]) -> Markup:
    rows = [(name, el("code", short_value(value))) for name, value in values.items()]
    return table((), rows, right=(1,), caption=caption)


MAX_CHARTS = 12


def results_section(run: RunFacts) -> Markup | None:
    """None where no step returned numbers that are not told of elsewhere."""
    measured = run.plain_numbers()
    if not measured:
        return None
    loops: dict[str, list[tuple[StepRun, Measured]]] = {}
    single: list[Measured] = []
    for one in measured:
        step = run.step(one.step)
        if step is not None and step.parent is not None:
            loops.setdefault(one.step.rpartition("-")[0], []).append((step, one))
        else:
            single.append(one)
    # One iteration is a table like any other step's.
    single += [items[0][1] for items in loops.values() if len(items) == 1]
    tables = [_returned(one) for one in single if overall(one)]
    charts = [chart for body, items in loops.items() if len(items) > 1 for chart in _by_item(body, items)]
    if any(map(per_class, single)):
        from drivetrain.telling.charts.curves import class_charts

        charts += class_charts(single)
    return section("Results", el("div", el("div", tables) if tables else None, charts, class_="charts"), id="results")


def _returned(one: Measured) -> Markup:
    rows = [(words(name), number(value)) for name, value in overall(one).items()]
    return table(("number", "value"), rows, right=("value",), caption=f"Returned by {one.step}")


def _by_item(body: str, items: Sequence[tuple[StepRun, Measured]]) -> list[Markup]:
    """A chart for each number that a step of a loop's body returned: a line where the items are numbers, else bars."""
    from drivetrain.telling.charts.charts import Series, bar_chart, line_chart
    from drivetrain.telling.charts.curves import MAX_BARS

    names = dict.fromkeys(name for _, one in items for name in overall(one))
    charts: list[Markup] = []
    for name in list(names)[:MAX_CHARTS]:
        found = [(step.item or step.name, one.numbers[name]) for step, one in items if name in one.numbers]
        title = f"{words(name)} of {body} by item"
        points = [(place, value) for item, value in found if (place := _number(item)) is not None]
        if len(points) == len(found) > 2:
            charts.append(line_chart(title, [Series(words(name), tuple(sorted(points)))], x_label="item"))
        else:
            more = f", the first {MAX_BARS} of {len(found)}" if len(found) > MAX_BARS else ""
            charts.append(bar_chart(title + more, found[:MAX_BARS]))
    return charts


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
