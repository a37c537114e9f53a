"""Rules about names of metrics: a slip costs the whole training before a job finds it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from drivetrain.base.errors import InputError, did_you_mean, nearest
from drivetrain.catalog.strategies import importable_recipe, metrics_folder, metrics_of_recipe, strategy_names
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import COMPARE, EVALUATE, MAKE_MODELS_OF_FUNCTIONS
from drivetrain.spec.steps import BaseStep, JobStep, is_our_training
from drivetrain.spec.trainings import ways
from drivetrain.spec.values import MetricRef, OutputRef

rule = RuleBook()

_OF_EVERY_EVALUATION = ("loss", "num_samples", "coverage", "width", "exact_match")
_OF_GROUPS = ("demographic_parity", "equalized_odds")
_WATCHES = ("early_stopping", "keep_best", "keep_best_n")
_OPTIONS = re.compile(r"\([^()]*\)")


@rule.each(BaseStep)
def watched_metrics_are_logged(step: BaseStep, graph: Graph) -> Iterator[str]:
    if not is_our_training(step) or not any(step.parameters.get(name) for name in _WATCHES):
        return
    monitor, own = step.parameters.get("monitor"), _own_metrics(graph, step)
    if not isinstance(monitor, str) or own is None:
        return
    names = [f"validation_{name}" for name in ("loss", *own)]
    if monitor not in names:
        yield f"step {step.name!r}: monitor={monitor!r} is no metric of its recipe. {did_you_mean(monitor, names)}"


@rule.each(JobStep)
def evaluations_measure_what_they_are_told(step: JobStep, graph: Graph) -> Iterator[str]:
    if step.program.target != EVALUATE:
        return
    shipped = strategy_names(metrics_folder())
    for name in _scored(step) or ():
        if name not in shipped and nearest(name, shipped) is not None and importable_recipe(name) is None:
            yield f"step {step.name!r}: scoring: there is no metric {name!r}. {did_you_mean(name, shipped)}"


@rule.each(BaseStep)
def decided_metrics_are_measured(step: BaseStep, graph: Graph) -> Iterator[str]:
    for reference in graph.references[step.name]:
        if isinstance(reference, MetricRef) and reference.type == "Float" and not reference.file:
            yield from _unmeasured(graph, step.name, "metric", reference.name, reference.step)
    if not isinstance(step, JobStep) or step.program.target != COMPARE:
        return
    evaluation = step.inputs.get("evaluation")
    if not isinstance(evaluation, OutputRef):
        return
    for field, name in _decided(step):
        yield from _unmeasured(graph, step.name, field, name, evaluation.step)


def _decided(step: JobStep) -> Iterator[tuple[str, str]]:
    """The field and the name of each metric that compare decides by, as far as they are known."""
    from drivetrain.decision.policy import Policy

    fields = {name: step.parameters.get(name) for name in ("metric", "floors", "budgets")}
    given: dict[str, Any] = {name: value for name, value in fields.items() if isinstance(value, str)}
    try:
        found = Policy(**given)
    except InputError:  # another rule says so
        return
    if "metric" in given:
        yield "metric", found.metric
    yield from (("floors", limit.metric) for limit in found.floor_limits)
    yield from (("budgets", limit.metric) for limit in found.budget_limits)


def _unmeasured(graph: Graph, where: str, field: str, name: str, evaluation: str) -> Iterator[str]:
    """That an evaluation of ours will not have a metric; nothing where only the run will tell."""
    step = graph.by_name.get(evaluation)
    if not isinstance(step, JobStep) or step.program.target != EVALUATE or not name.isidentifier():
        return
    model, scored = step.inputs.get("model"), _scored(step)
    own = _own_metrics(graph, graph.maker(model)) if isinstance(model, OutputRef) else None
    if "answers" in step.inputs:  # no model is asked
        own = ()
    if own is None or scored is None:
        return
    measured = [
        *_OF_EVERY_EVALUATION,
        *(_OF_GROUPS if step.parameters.get("fairness", "") != "" else ()),
        *own,
        *(one.rpartition(".")[2] for one in scored or strategy_names(metrics_folder())),
    ]
    if not any(name == one or name.startswith(f"{one}_") for one in measured):
        yield (
            f"step {where!r}: {field}: step {evaluation!r} measures no {name!r}. "
            f"{did_you_mean(name, list(dict.fromkeys(measured)))}"
        )


def _own_metrics(graph: Graph, step: Any) -> tuple[str, ...] | None:
    """The metrics of the recipes that a training of ours may run with; None where a recipe's file does not tell. A
    model of functions has none."""
    if isinstance(step, JobStep) and step.program.target in MAKE_MODELS_OF_FUNCTIONS:
        return ()
    if not is_our_training(step):
        return None
    found: dict[str, None] = {}
    for way in ways(step, graph.pipeline.parameters):
        path = importable_recipe(way.text("recipe") or "")
        if path is None or (names := metrics_of_recipe(path)) is None:
            return None
        found |= dict.fromkeys(names)
    return tuple(found)


def _scored(step: JobStep) -> list[str] | None:
    """The metrics of `scoring`; None where only the run will tell. None are named: those of the task."""
    scoring = step.parameters.get("scoring", "")
    if not isinstance(scoring, str):
        return None
    while (without := _OPTIONS.sub("", scoring)) != scoring:  # options may hold brackets of their own
        scoring = without
    return [name.strip() for name in scoring.split(",") if name.strip()]
