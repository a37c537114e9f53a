"""The page's section on an evaluation: its metrics, slices, curves and worst samples, and how it came about. Also the
page of evaluations and decisions alone, for those who evaluated from a shell.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import count, moment_with_zone, number
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import Cell, document, scrolled, section, table
from drivetrain.telling.charts.dot_plot import Row, dot_plot
from drivetrain.telling.charts.heat_map import heat_map
from drivetrain.telling.charts.square_chart import rate_charts
from drivetrain.telling.content.decision import DecisionFacts
from drivetrain.telling.content.evaluation import (
    EvaluationFacts,
    Measure,
    Slice,
    how,
    worst_slices,
)
from drivetrain.telling.content.findings import words
from drivetrain.telling.content.plotted import PlottedMatrix
from drivetrain.telling.content.suspects import HEAD, SuspectFacts
from drivetrain.telling.content.worst import WorstSample
from drivetrain.telling.page import decision_section
from drivetrain.telling.page.metric_table import MAX_OPEN, class_table, metric_table, value_cell
from drivetrain.telling.page.threshold_section import threshold_part

MAX_DOTS = 30
MAX_COLUMNS = 6
MAX_SLICE_ROWS = 300
MAX_SLICE_METRICS = 8
MAX_UNDEFINED = 12
MAX_MATRICES = 4
# By which metric of a class classes are compared, where there are several.
_OF_CLASSES = ("f1", "recall", "accuracy", "precision", "auroc")


def draw(evaluations: Sequence[EvaluationFacts], decisions: Sequence[DecisionFacts]) -> list[Markup]:
    """A section an evaluation; slices are compared by the metric that decided."""
    lead = next((one.metric for one in decisions if one.metric), "")
    return [
        section(
            "Evaluation" if len(evaluations) == 1 else f"Evaluation of {one.step}",
            evaluation_section(one, lead),
            id=f"evaluation-{place}",
        )
        for place, one in enumerate(evaluations, 1)
    ]


def evaluation_section(found: EvaluationFacts, lead: str = "") -> Markup:
    """All of one evaluation; `lead` names the metric by which slices are compared, where it is not the first."""
    if found.problem and not found.measures:
        return el("p", f"The evaluation of {found.step} cannot be shown: its {found.problem}.")
    overall = found.overall()
    leading = next((one for one in overall if one.name == lead), overall[0] if overall else None)
    plots = [_class_plot(found), *_slice_plots(found, leading)]
    drawn = [plot for plot in plots if plot is not None]
    beside = _fitting(drawn, len(overall))
    asked = found.settings.get("metrics")
    curves = rate_charts(found)
    matrices = [one for one in found.curves if isinstance(one, PlottedMatrix)]
    return el(
        "div",
        el("p", how(found), class_="method"),
        el(
            "div",
            el("div", metric_table(overall, found.confidence)),
            el("div", drawn[:beside], class_="stack") if beside else None,
            class_="beside",
        )
        if overall
        else None,
        _undefined(found),
        [el("p", note) for note in found.notes],
        el("div", drawn[beside:], class_="charts below") if drawn[beside:] else None,
        _slice_table(found),
        class_table(found),
        el("div", curves, class_="charts below") if curves else None,
        threshold_part(found),
        [heat_map(words(one.name), one) for one in matrices[:MAX_MATRICES]],
        worst_part(found.worst, found.worst_key),
        _suspects(found.suspects),
        el("p", f"Its {found.problem}.", class_="method") if found.problem else None,
        el("p", f"Asked for: {asked}.", class_="method") if asked else None,
        class_="evaluation",
    )


def _fitting(plots: list[Markup], num_metrics: int) -> int:
    """How many of the plots fit beside a table of so many metrics: a row of it takes 1.7 of theirs."""
    room = 1.7 * (min(num_metrics, MAX_OPEN) + 3) if num_metrics else 0.0
    for place, plot in enumerate(plots):
        room -= plot.count('class="row') + 5
        if room < 0:
            # One is put there in any case: the room is empty otherwise.
            return max(place, 1) if num_metrics else 0
    return len(plots)


def _undefined(found: EvaluationFacts) -> Content:
    """The metrics that the samples do not define, with the reasons."""
    # Those of classes are dashes in the table by class, with the reason for the pointer; but few are told in full.
    entries = list(found.undefined.items())
    if not entries:
        return None
    rows = [(words(name), why) for name, why in entries]
    if len(rows) <= MAX_UNDEFINED:
        return table((), rows, caption="Not defined on these samples", style="undefined")
    summary = el("summary", f"{len(rows):,} metrics are not defined on these samples")
    return el("details", summary, table((), rows, style="undefined"))


def _class_plot(found: EvaluationFacts) -> Markup | None:
    by_class = found.by_class()
    name = next((name for name in _OF_CLASSES if name in by_class), next(iter(by_class), None))
    if name is None:
        return None
    measured = sorted(
        ((found.class_name(each), one) for each, one in by_class[name].items() if one.is_drawable),
        key=lambda pair: -pair[1].value if pair[1].higher_is_better is False else pair[1].value,
    )
    if not measured:
        return None
    rows = [Row(name=each, value=one.value, interval=one.interval) for each, one in measured[:MAX_DOTS]]
    overall = next((found.measures[key] for key in (name, f"{name}_macro") if key in found.measures), None)
    return dot_plot(
        f"{words(name)} by class",
        rows,
        reference=overall.value if overall is not None and overall.is_drawable else None,
        reference_name=words(overall.name) if overall is not None else "",
        note=_worst_of(len(rows), len(measured)),
    )


def _slice_plots(found: EvaluationFacts, leading: Measure | None) -> list[Markup]:
    """For each column the leading metric of its values, the worst first."""
    if leading is None or not leading.is_drawable:
        return []
    columns: dict[str, list[Slice]] = {}
    for one in found.slices:
        columns.setdefault(one.column, []).append(one)
    plots: list[Markup] = []
    for column, slices in list(columns.items())[:MAX_COLUMNS]:
        ranked = [(one, measure) for one, measure in worst_slices(slices, leading) if measure.is_drawable]
        rows = [
            Row(
                name=one.value or "(empty)",
                value=measure.value,
                interval=measure.interval,
                note="" if one.num_samples is None else count(one.num_samples, "sample"),
            )
            for one, measure in ranked[:MAX_DOTS]
        ]
        if rows:
            plots.append(
                dot_plot(
                    f"{words(leading.name)} by {column}",
                    rows,
                    reference=leading.value,
                    reference_name="all samples",
                    note=_worst_of(len(rows), len(ranked)),
                )
            )
    return plots


def _worst_of(shown: int, there: int) -> Markup | None:
    return el("span", f"the worst {shown} of {there:,}", class_="legend") if there > shown else None


def _slice_table(found: EvaluationFacts) -> Markup | None:
    """Every slice with its metrics, folded away."""
    if not found.slices:
        return None
    overall = found.overall()[:MAX_SLICE_METRICS]
    ranked = [one for one, _ in worst_slices(found.slices, overall[0])] if overall else []
    ranked += [one for one in found.slices if one not in ranked]
    rows = [
        (
            f"{one.column} = {one.value}",
            "–" if one.num_samples is None else f"{one.num_samples:,}",
            *(_slice_cell(one, measure.name) for measure in overall),
        )
        for one in ranked[:MAX_SLICE_ROWS]
    ]
    head = ["slice", "samples", *(words(one.name) for one in overall)]
    more = f"The first {len(rows)} of {found.num_slices:,} slices" if found.num_slices > len(rows) else None
    made = table(head, rows, right=range(1, len(head)), caption=more, style="metrics")
    summary = el("summary", f"{count(found.num_slices, 'slice')} with all metrics")
    return el("details", summary, scrolled(made))


def _slice_cell(one: Slice, name: str) -> Cell:
    measure = one.measures.get(name)
    return Cell("–", title=one.undefined.get(name)) if measure is None else value_cell(measure)


def worst_part(samples: Sequence[WorstSample], key: str = "") -> Markup | None:
    """None without samples. `key` names the column that names a sample."""
    if not samples:
        return None
    pictured = all(one.picture for one in samples)
    return el(
        "div",
        el("h3", f"The {count(len(samples), 'sample')} with the largest losses"),
        el("div", [_sample(one, key) for one in samples], class_="gallery") if pictured else _worst_table(samples, key),
        class_="below",
    )


def _sample(one: WorstSample, key: str) -> Markup:
    name = _name(one, key)
    return el(
        "figure",
        el("img", src=one.picture, alt=f"{name}: target {one.target}, predicted {one.predicted}"),
        el(
            "figcaption",
            el("b", f"{one.target} → {one.predicted or '?'}", title="target → predicted"),
            el("span", f"loss {number(one.loss)}"),
            el("span", _scores(one)) if one.scores else None,
            el("span", ", ".join([name, *(f"{column} {text}" for column, text in one.columns.items())])),
        ),
    )


def _worst_table(samples: Sequence[WorstSample], key: str) -> Markup:
    columns = list(dict.fromkeys(name for one in samples for name in one.columns))
    pictured = any(one.picture for one in samples)
    head = [*([""] if pictured else []), "sample", "loss", "target", "predicted", "scores", *columns]
    rows = [
        (
            *([el("img", src=one.picture, alt="") if one.picture else None] if pictured else []),
            _name(one, key),
            number(one.loss),
            one.target,
            one.predicted,
            _scores(one),
            *(one.columns.get(name, "–") for name in columns),
        )
        for one in samples
    ]
    made = table(head, rows, right=("loss",), style="worst", lead=int(pictured))
    return scrolled(made, label="The largest losses")


def _suspects(found: SuspectFacts) -> Markup | None:
    """None without a suspect."""
    if not found.rows:
        return None
    made = table(HEAD, found.rows, right=HEAD[3:], style="worst")
    listed = scrolled(made, label="Rows whose label may be wrong")
    return el("div", el("h3", found.title), el("p", found.note, class_="method"), listed, class_="below")


def _name(one: WorstSample, key: str) -> str:
    return f"{key} {one.key}" if key else f"row {one.row:,}"


def _scores(one: WorstSample) -> str:
    return ", ".join(f"{each}: {number(score)}" for each, score in one.scores)


def evaluation_page(
    title: str, evaluations: Sequence[EvaluationFacts], decisions: Sequence[DecisionFacts], *, written: float
) -> str:
    """The whole page; `written` is seconds since the epoch."""
    return document(
        title,
        el(
            "header",
            el("div", el("h1", title), class_="headline"),
            [decision_section.verdict(one) for one in decisions],
        ),
        el("main", decision_section.draw(decisions), draw(evaluations, decisions)),
        el("footer", f"Written by drivetrain at {moment_with_zone(written)}."),
        styles=("evaluation.css",),
        scripts=("threshold.js",) if any(one.has_sliders for one in evaluations) else (),
    )
