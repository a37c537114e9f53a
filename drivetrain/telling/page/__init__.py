"""The page of a run: one HTML file that needs nothing else, for people to keep, print and send.

Nothing in it runs: it holds no script, and its policy forbids any, whatever a step or a parameter is named. A section
is imported where the run has something to show in it: most runs have few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from drivetrain.base.formatting import approval_words, count, duration, moment_with_zone, number, size, status_word
from drivetrain.base.markup import Content, Markup, el
from drivetrain.run_store.model import Artifact
from drivetrain.run_store.reasons import known_paths
from drivetrain.telling import Around, definitions, document, listing, place_code, section, tile
from drivetrain.telling.content import Curve, RunFacts
from drivetrain.telling.dag import MAX_SIDE_BY_SIDE, Dag
from drivetrain.telling.dag.picture import MAX_NODES, dag_svg
from drivetrain.telling.page.sections import (
    commands_section,
    parameters_section,
    results_section,
    status_mark,
    steps_section,
)

if TYPE_CHECKING:
    from drivetrain.telling.content.evaluation import EvaluationFacts, Measure
    from drivetrain.telling.content.goodput import JobTimes
    from drivetrain.telling.content.spot_savings import Prices

MAX_FAILURES = 10


class Drawn:
    """The dear sections of a page as they were drawn last: each is drawn again when what it is drawn of has changed."""

    def __init__(self) -> None:
        self._kept: dict[Callable[..., Content], tuple[tuple[Any, ...], Content]] = {}

    def __call__(self, section: Callable[..., Content], *facts: Any) -> Content:
        """The result of `section(*facts)`, kept for facts of equal values."""
        kept = self._kept.get(section)
        if kept is None or kept[0] != facts:
            kept = self._kept[section] = facts, section(*facts)
        return kept[1]


def render(
    run: RunFacts,
    prices: Prices | None = None,
    around: Around | None = None,
    served: Content = None,
    drawn: Drawn | None = None,
    step_address: Callable[[str], str] | None = None,
    charts: Sequence[str] = (),
) -> str:
    """The whole page; `prices` say what spot machines saved, `served` are the sections that only a server can have,
    `drawn` has the sections of the page before, where it is made again and again, and `step_address` is that of a
    step's page, and `charts` are those of the training that are chosen, all where none is."""
    drawn = drawn or Drawn()
    choosing = around is not None and bool(around.scripts)
    title = f"{run.pipeline} · {status_word(run.shown_status)} · {run.id}"
    return document(
        title,
        _header(run),
        el(
            "main",
            _failure(run),
            served,
            drawn(_late("decision_section"), run.decisions),
            drawn(_graph, run.pipeline, run.dag),
            drawn(_late("data_check_section"), run.data_checks),
            drawn(_late("data_section"), run.datasets),
            drawn(_training, run.curves, run.job_times, run.ended_early, charts, choosing),
            drawn(_late("health_section"), run.healths),
            drawn(_late("tuning_section"), run.tunings),
            _late("interruptions")(run.job_times, prices),
            drawn(_late("evaluation_section"), run.evaluations, run.decisions),
            results_section(run),
            drawn(_late("card_section"), run.cards),
            _late("model_section")(run.models, run),
            steps_section(run, step_address),
            _late("checkpoints_section")(run.checkpoints, run.id),
            parameters_section(run),
            commands_section(run),
            drawn(_lineage, run.id, run.artifacts),
            _environment(run),
            id="content",
        ),
        el("footer", f"Written by drivetrain at {moment_with_zone(run.written)}."),
        styles=(
            *(("evaluation.css",) if run.evaluations or run.decisions else ()),
            *(("tuning.css",) if run.tunings else ()),
            *(("health.css",) if run.healths else ()),
            *(("data.css",) if run.datasets or run.data_checks else ()),
            *(("card.css",) if run.cards else ()),
        ),
        scripts=("threshold.js",) if any(one.has_sliders for one in run.evaluations) else (),
        around=around,
    )


def _header(run: RunFacts) -> Markup:
    ran = sum(step.status == "Succeeded" for step in run.steps)
    cached = sum(step.status == "Cached" for step in run.steps)
    tiles = [
        tile("Duration", duration(run.seconds), "so far" if run.ended is None else ""),
        tile("Steps", f"{ran + cached} of {len(run.steps)}", f"{cached} from the cache" if cached else "done"),
    ]
    evaluated = [one for one in run.evaluations if one.measures]
    for evaluation in evaluated[-1:]:
        from drivetrain.telling.content.evaluation import interval_words, value_words
        from drivetrain.telling.content.findings import words

        tiles += [
            tile(
                words(one.name) + (", decides" if one.name in run.deciding else ""),
                value_words(one),
                interval_words(one) or f"by {evaluation.step}",
            )
            for one in _headlines(evaluation, run.deciding)
        ]
    # An iteration's number is one of many, and no headline.
    single = [one for one in run.plain_numbers() if (step := run.step(one.step)) is None or step.parent is None]
    for measured in single[-1:] if not evaluated else ():
        from drivetrain.telling.content.findings import overall, words

        shown = sorted(
            overall(measured).items(),
            key=lambda item: (item[0] not in run.deciding, item[0] != "accuracy", item[0] == "num_samples"),
        )
        tiles += [
            tile(words(name) + (", decides" if name in run.deciding else ""), number(value), f"by {measured.step}")
            for name, value in shown[:2]
        ]
    for model in run.models[-1:]:
        tiles.append(tile("Model", f"{model.group} {model.version}", approval_words(model.status)))
    facts = [("Execution", el("code", run.id)), ("Started", moment_with_zone(run.started))]
    if run.ended is not None:
        facts.append(("Ended", moment_with_zone(run.ended)))
    if run.name:
        facts.insert(0, ("Name", run.name))
    facts += [(name, text) for name, text in run.tags.items()]
    facts += [(name, _link(place)) for name, place in run.trackers.items()]
    return el(
        "header",
        el("div", el("h1", run.pipeline), status_mark(run.shown_status), class_="headline"),
        el("dl", [el("div", el("dt", name), el("dd", value)) for name, value in facts], class_="inline"),
        el("p", run.note, class_="note") if run.note else None,
        _verdicts(run),
        el("div", tiles, class_="tiles"),
        _progress(run) if run.ended is None else None,
    )


def _link(place: str) -> Markup:
    """An address to follow; a folder or a database as it is."""
    return el("a", "open", href=place) if place.startswith(("http://", "https://")) else el("code", place)


def _progress(run: RunFacts) -> Markup:
    """How many steps are over, of a run that goes on."""
    over = sum(step.status not in ("Waiting", "Executing") for step in run.steps)
    total = len(run.steps)
    return el("progress", f"{over} of {total}", value=over, max=total, aria_label=f"{over} of {total} steps are over")


def _verdicts(run: RunFacts) -> list[Markup]:
    if not run.decisions:
        return []
    from drivetrain.telling.page.decision_section import verdict

    return [verdict(decision) for decision in run.decisions]


@cache
def _late(module: str) -> Callable[..., Content]:
    """The `draw` of a module of this folder, which is imported where there is something to draw: its first facts."""

    def section(*facts: Any) -> Content:
        return import_module(f"{__name__}.{module}").draw(*facts) if facts[0] else None

    return section


def _headlines(found: EvaluationFacts, deciding: Collection[str]) -> list[Measure]:
    """The metric that decides, else what people ask for first, and the loss beside it."""
    overall = sorted(found.overall(), key=lambda one: one.name not in deciding)
    loss = [one for one in overall[1:] if one.name == "loss"]
    return [*overall[:1], *(loss or overall[1:2])]


def _failure(run: RunFacts) -> Markup | None:
    failed = run.failures()
    if not failed and not run.reason:
        return None
    blocks = [
        el("div", el("h3", f"{step.title} failed"), el("pre", known_paths(step.reason or "No reason was given.")))
        for step in failed[:MAX_FAILURES]
    ]
    if len(failed) > MAX_FAILURES:
        blocks.append(el("p", f"{len(failed) - MAX_FAILURES} more failed; the table of steps has them."))
    if run.reason and not any(step.reason and step.reason in run.reason for step in failed):
        blocks.insert(0, el("p", known_paths(run.reason)))
    blocks += [
        el("p", f"{name} goes on from step {saved.training_step:,}: ", place_code(saved.uri))
        for name, saved in run.goes_on_from.items()
    ]
    return el("section", el("h2", "What went wrong", id="failure"), blocks, class_="failure", aria_labelledby="failure")


def _graph(pipeline: str, dag: Dag) -> Markup | None:
    if not dag.nodes:
        return None
    if len(dag.nodes) > MAX_SIDE_BY_SIDE:
        from drivetrain.telling.dag.folding import folded

        dag = folded(dag)
    if len(dag.nodes) > MAX_NODES:
        drawing: Markup = el("p", f"{len(dag.nodes):,} steps are too many for one picture; the table has them all.")
    else:
        drawing = el("div", dag_svg(dag, title=f"Steps of {pipeline}"), class_="scroll", tabindex=0)
    return section("Pipeline", drawing, id="pipeline")


def _training(
    curves: tuple[Curve, ...],
    job_times: tuple[JobTimes, ...],
    ended_early: Mapping[str, str],
    chosen: Sequence[str],
    choosing: bool,
) -> Markup | None:
    charts: Content = None
    folded: Content = None
    form: Content = None
    if curves:
        from drivetrain.telling.charts.curves import drawn_curves, training_charts
        from drivetrain.telling.page.choosing import chart_key, charts_form

        if choosing:
            form = charts_form([(curve.step, curve.name) for curve in drawn_curves(curves)], chosen)
        if chosen:
            left_out = [each for each in drawn_curves(curves) if chart_key(each.step, each.name) not in chosen]
            curves = tuple(curve for curve in curves if curve not in left_out)
        charts = training_charts(curves, job_times=job_times)
        if any(curve.positions for curve in curves):
            over_time = el("div", training_charts(curves, over_time=True, job_times=job_times), class_="charts")
            folded = el("details", el("summary", "Over time"), over_time)
    several = len({curve.step for curve in curves}) > 1
    told = [el("p", f"{step}: {why}" if several else why) for step, why in ended_early.items()]
    if not charts and not told and not form:
        return None
    return section("Training", told, form, el("div", charts, class_="charts"), folded, id="training")


def _lineage(execution: str, artifacts: tuple[Artifact, ...]) -> Markup | None:
    if not artifacts:
        return None
    head = ("Step", "", "Name", "Place", "Size", "Content (sha256)", "From")
    rows = [
        (
            item.step,
            "read" if item.flow == "input" else "wrote",
            item.name,
            place_code(item.uri),
            f"{size(item.bytes)}, {count(item.files, 'file')}",
            el("code", item.digest[:16], title=item.digest),
            _origin(execution, item.from_step, item.from_execution),
        )
        for item in artifacts
    ]
    detail = el("details", el("summary", count(len(rows), "folder")), listing(head, rows))
    return section("Lineage", detail, id="lineage")


def _origin(here: str, step: str | None, execution: str | None) -> Content:
    if step is None:
        return "–"
    return step if execution in (None, here) else [step, " of ", el("code", execution)]


def _environment(run: RunFacts) -> Markup | None:
    facts: Mapping[str, str] = {
        **run.environment,
        **({"definition (sha256)": run.definition_hash} if run.definition_hash else {}),
        **({"code (sha256)": run.code_hash} if run.code_hash else {}),
    }
    if not facts:
        return None
    return section("Environment", definitions([(name, el("code", value)) for name, value in facts.items()]),
                    id="environment")  # fmt: skip
