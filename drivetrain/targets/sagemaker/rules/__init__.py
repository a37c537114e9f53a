"""What SageMaker Pipelines does not take of a pipeline; drivetrain/rules/rules.py asks, and says when."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import TrainingStep, TuningStep


def about_jobs(graph: Graph) -> Iterator[RuleBook]:
    from drivetrain.targets.sagemaker.rules import limit_rules, option_rules

    yield limit_rules.rule
    if any(type(step) is TuningStep for step in graph.steps):
        from drivetrain.targets.sagemaker.rules import tuning_rules

        yield tuning_rules.rule
    yield option_rules.rule


def about_trainings(graph: Graph) -> Iterator[RuleBook]:
    if any(isinstance(step, TrainingStep) for step in graph.steps):
        from drivetrain.targets.sagemaker.rules import debugger_rules

        yield debugger_rules.rule
