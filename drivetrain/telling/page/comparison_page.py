"""The page of a comparison: settings that differ first, then metrics, curves, decisions, data and code."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.base.formatting import duration, moment_with_zone, number_or_dash, signed
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import Around, document, scrolled, section, table
from drivetrain.telling.charts.charts import MAX_SERIES, Series, line_chart
from drivetrain.telling.charts.curves import over_steps
from drivetrain.telling.charts.run_places import run_places
from drivetrain.telling.content.comparison import COST, Comparison
from drivetrain.telling.content.decision import sentence
from drivetrain.telling.content.findings import words
from drivetrain.telling.page.choosing import chart_key, charts_form
from drivetrain.telling.page.sections import short_value, status_mark

MAX_CHARTS = 24


def comparison_page(found: Comparison, around: Around | None = None, charts: Sequence[str] = ()) -> str:
    """The whole page; `charts` are those that are chosen, all where none is."""
    pipelines = list(dict.fromkeys(run.facts.pipeline for run in found.runs))
    title = f"{' and '.join(pipelines)}: {len(found.runs)} runs compared"
    return document(
        title,
        el("header", el("div", el("h1", title), class_="headline")),
        el(
            "main",
            [_runs(found), _settings(found), _metrics(found)],
            _curves(found, charts, served=around is not None and bool(around.scripts)),
            [_decisions(found), _origin(found)],
            id="content",
        ),
        el("footer", f"Written by drivetrain at {moment_with_zone(time.time())}."),
        around=around,
    )


def _runs(found: Comparison) -> Markup:
    facts = [run.facts for run in found.runs]
    rows: list[tuple[str, list[Content]]] = [
        ("status", [status_mark(run.shown_status) for run in facts]),
        ("started", [moment_with_zone(run.started) for run in facts]),
        ("duration", [duration(run.seconds) for run in facts]),
        ("time of its steps", [duration(run.step_seconds) for run in found.runs]),
    ]
    if any(run.name for run in facts):
        rows.insert(0, ("name", [run.name or "–" for run in facts]))
    if any(run.tags for run in facts):
        rows.append(("tags", [", ".join(f"{key} {text}" for key, text in run.tags.items()) or "–" for run in facts]))
    if any(run.note for run in facts):
        rows.append(("note", [run.note or "–" for run in facts]))
    if any(run.models for run in facts):
        models = [f"{run.models[-1].group} {run.models[-1].version}" if run.models else "–" for run in facts]
        rows.append(("model", list(models)))
    return section("Runs", _table(found, rows), el("p", f"Cost: {COST}.", class_="method"), id="runs")


def _settings(found: Comparison) -> Markup:
    if not found.settings:
        return section("Settings", el("p", "All settings are the same."), id="settings")
    rows: list[tuple[str, list[Content]]] = [
        (name, [el("code", _text(value)) for value in values]) for name, values in found.settings.items()
    ]
    return section("Settings that differ", _table(found, rows), id="settings")


def _metrics(found: Comparison) -> Markup | None:
    of_decisions = {name: values for name, values in found.metrics.items() if name in found.of_decisions}
    measured = {name: values for name, values in found.metrics.items() if name not in of_decisions}
    overall = {name: values for name, values in measured.items() if "_class_" not in name}
    by_class = {name: values for name, values in measured.items() if name not in overall}
    if not found.metrics:
        return None
    blocks: list[Content] = [_metric_table(found, overall)] if overall else []
    if found.not_paired:
        blocks.append(el("p", found.not_paired))
    if by_class:
        blocks.append(
            el("details", el("summary", f"{len(by_class)} of single classes"), _metric_table(found, by_class))
        )
    if of_decisions:
        summary = el("summary", f"{len(of_decisions)} of the decisions")
        blocks.append(el("details", summary, _metric_table(found, of_decisions)))
    return section("Metrics", blocks, id="metrics")


def _metric_table(found: Comparison, metrics: Mapping[str, tuple[float | None, ...]]) -> Markup:
    rows: list[tuple[str, list[Content]]] = []
    for name, values in metrics.items():
        cells: list[Content] = []
        for place, value in enumerate(values):
            cells.append([number_or_dash(value), _difference(found, name, values, place)])
        rows.append((words(name), cells))
    return _table(found, rows)


def _difference(found: Comparison, name: str, values: tuple[float | None, ...], place: int) -> Content:
    first, value = values[0], values[place]
    if place == 0 or first is None or value is None or value == first:
        return None
    told = signed(value - first)
    paired = found.paired[place - 1].get(name) if found.paired else None
    if paired is not None and paired.interval is not None:
        told += f" ({signed(paired.interval.low)} to {signed(paired.interval.high)})"
    return el("small", f" {told}")


def _drawn(found: Comparison) -> list[tuple[str, str]]:
    """Step and name of the curves that two runs have."""
    counted = Counter(
        (curve.step, curve.name) for run in found.runs for curve in run.facts.curves if len(curve.points) > 1
    )
    return [key for key, runs in counted.items() if runs > 1]


def _curves(found: Comparison, chosen: Sequence[str], *, served: bool) -> Markup | None:
    places = run_places(_ids(found))
    names = [(step, name) for step, name in _drawn(found) if not chosen or chart_key(step, name) in chosen]
    charts: list[Markup] = []
    for step, name in names[:MAX_CHARTS]:
        curves = [
            (run.facts, curve)
            for run in found.runs
            for curve in run.facts.curves
            if (curve.step, curve.name) == (step, name) and len(curve.points) > 1
        ]
        by_step = all(curve.positions for _, curve in curves)
        series = [
            Series(run.name or run.id, over_steps(curve) if by_step else curve.points, places[run.id])
            for run, curve in curves
        ]
        label = f"step of {step}" if by_step else f"seconds since {step} started"
        if len(series) > 1:
            charts.append(line_chart(words(name), series[:MAX_SERIES], x_label=label))
    runs = [el("input", type="hidden", name="run", value=run.facts.id) for run in found.runs]
    form = charts_form(_drawn(found), chosen, runs) if served else None
    return section("Training", form, el("div", charts, class_="charts"), id="training") if charts or form else None


def _decisions(found: Comparison) -> Markup | None:
    if not any(run.facts.decisions for run in found.runs):
        return None

    said: list[Content] = [
        [el("p", sentence(decision)) for decision in run.facts.decisions] or "–" for run in found.runs
    ]
    return section("Decisions", _table(found, [("decision", said)]), id="decisions")


def _origin(found: Comparison) -> Markup:
    rows: list[tuple[str, list[Content]]] = [
        (f"data of {name}", [el("code", (value or "–")[:16], title=value or "") for value in values])
        for name, values in found.data.items()
    ]
    for name in found.data_not_comparable:
        rows.append((f"data of {name}", ["not comparable" for _ in found.runs]))
    if found.same_code is not True:
        rows.append(("code", [el("code", run.facts.code_hash[:16] or "–") for run in found.runs]))
    if not rows:
        return section("Data and code", el("p", "All runs read the same data, with the same code."), id="origin")
    return section("Data and code that differ, or are not comparable (sha256)", _table(found, rows), id="origin")


def _ids(found: Comparison) -> list[str]:
    return [run.facts.id for run in found.runs]


def _table(found: Comparison, rows: list[tuple[str, list[Content]]]) -> Markup:
    places = run_places(_ids(found))
    heads = [[el("i", class_=f"key s{places[id]}"), " ", el("code", id)] for id in _ids(found)]
    return scrolled(table(["", *heads], [(name, *cells) for name, cells in rows], style="compared"))


def _text(value: Any) -> str:
    return "–" if value is None else short_value(value)
