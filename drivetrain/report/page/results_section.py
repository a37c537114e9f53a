"""The numbers that steps returned: a table a step, and of a ForEach one chart a number, a point an item."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import number
from drivetrain.base.markup import Markup, el
from drivetrain.report.content.facts import Measured, RunFacts, StepFacts
from drivetrain.report.content.measured import overall, per_class, words
from drivetrain.report.document import section

MAX_CHARTS = 12


def results_section(run: RunFacts) -> Markup | None:
    """None where no step returned numbers that are not told of elsewhere."""
    measured = run.plain_numbers()
    if not measured:
        return None
    loops: dict[str, list[tuple[StepFacts, Measured]]] = {}
    single: list[Measured] = []
    for one in measured:
        step = run.step(one.step)
        if step is not None and step.parent is not None:
            loops.setdefault(one.step.rpartition("-")[0], []).append((step, one))
        else:
            single.append(one)
    # One iteration is a table like any other step's.
    single += [items[0][1] for items in loops.values() if len(items) == 1]
    tables = [_table(one) for one in single if overall(one)]
    charts = [chart for body, items in loops.items() if len(items) > 1 for chart in _by_item(body, items)]
    if any(map(per_class, single)):
        from drivetrain.report.charts.curves import class_charts

        charts += class_charts(single)
    return section("Results", el("div", el("div", tables) if tables else None, charts, class_="charts"), id="results")


def _table(one: Measured) -> Markup:
    rows = [
        el("tr", el("th", words(name), scope="row"), el("td", number(value), class_="right"))
        for name, value in overall(one).items()
    ]
    head = el("tr", el("th", "number", scope="col"), el("th", "value", scope="col", class_="right"))
    return el("table", el("caption", f"Returned by {one.step}"), el("thead", head), el("tbody", rows))


def _by_item(body: str, items: Sequence[tuple[StepFacts, Measured]]) -> list[Markup]:
    """A chart for each number that a step of a loop's body returned: a line where the items are numbers, else bars."""
    from drivetrain.report.charts.charts import Series, bar_chart, line_chart
    from drivetrain.report.charts.curves import MAX_BARS

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
