"""Rules about pipelines: one rule, one function, one test. They run when a Pipeline is built.

A rule is a generator of messages over the graph; each message says what was given, what is allowed and what to do.
They are written in the files *_rules.py beside this one, and hold on every target. The functions `about_jobs` and
`about_trainings` of a target's `rules.py` give its own. They hold for pipelines of that target, and when a pipeline of
another one is compiled to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import SpecError
from drivetrain.rules import RuleBook, graph_rules, job_rules
from drivetrain.spec.deployment import module_of
from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.spec.resources import CHECK_DATA, CHECK_SERVED, COMPARE, EVALUATE, REGISTER_MODEL
from drivetrain.spec.steps import TRAIN, ForEachStep, JobStep, TrainingStep
from drivetrain.spec.values import ItemRef


def _books(graph: Graph, target: str) -> Iterator[RuleBook]:
    """The rules that a pipeline has to keep, in their order. What they are about is imported where it is there."""
    own = module_of(target, "rules")
    kinds = tuple(map(type, graph.steps))
    yield graph_rules.rule
    if ForEachStep in kinds or any(isinstance(one, ItemRef) for found in graph.references.values() for one in found):
        from drivetrain.rules import for_each_rules

        yield for_each_rules.rule
    if graph.pipeline.triggers:
        from drivetrain.rules import trigger_rules

        yield trigger_rules.rule
    yield job_rules.rule
    if own is not None:
        yield from own.about_jobs(graph)
    programs = {step.program.target for step in graph.steps if isinstance(step, JobStep)}
    if programs & {CHECK_DATA, CHECK_SERVED, COMPARE, REGISTER_MODEL}:
        from drivetrain.rules import registry_rules

        yield registry_rules.rule
    if programs & {TRAIN, EVALUATE}:
        from drivetrain.rules import metric_rules

        yield metric_rules.rule
    if any(issubclass(kind, TrainingStep) for kind in kinds):
        from drivetrain.rules import strategy_rules, training_rules

        yield strategy_rules.rule
        yield training_rules.rule
    if own is not None:
        yield from own.about_trainings(graph)


def problems(pipeline: Pipeline) -> list[str]:
    """Every message of the first rule that is broken: later rules may lean on earlier ones."""
    return _first(pipeline, pipeline.deployment.target)


def problems_on(pipeline: Pipeline, target: str) -> list[str]:
    """Likewise by the rules of a target alone; none where the pipeline is of that target, and has kept them."""
    return [] if pipeline.deployment.target == target else _first(pipeline, target, own_alone=True)


def _first(pipeline: Pipeline, target: str, *, own_alone: bool = False) -> list[str]:
    graph = Graph(pipeline)
    for book in _books(graph, target):
        for broken in book if book.target or not own_alone else ():
            if found := list(broken(graph)):
                return found
    return []


def check(pipeline: Pipeline) -> None:
    """Raise SpecError with the first message, and how many more there are; or at the line of a step that is given what
    it cannot read."""
    if found := problems(pipeline):
        more = f" ({len(found) - 1} more like this)" if len(found) > 1 else ""
        raise SpecError(f"Pipeline {pipeline.name!r}: {found[0]}{more}")
    graph = Graph(pipeline)
    if any(isinstance(step, JobStep) and step.program.target.startswith("drivetrain.") for step in graph.steps):
        from drivetrain.rules.wiring import refuse_wrong_kinds

        refuse_wrong_kinds(graph)
