"""What a pipeline must not be: one rule, one function, one test. Rules run when a Pipeline is built.

A rule is a generator of messages over the graph; each message says what was given, what is allowed and what to do.
They are written in the files *_rules.py beside this one. Facts and limits are SageMaker's, which are the strictest of
the targets (quotas.py has the sources).
"""

from __future__ import annotations

from drivetrain.base.errors import SpecError
from drivetrain.rules import (
    checkpoint_rules,
    for_each_rules,
    graph_rules,
    job_rules,
    option_rules,
    strategy_rules,
    trigger_rules,
    tuning_rules,
)
from drivetrain.rules.rule_book import Rule
from drivetrain.spec.graph import Graph
from drivetrain.spec.pipeline import Pipeline

RULES: tuple[Rule, ...] = (
    *graph_rules.rule,
    *for_each_rules.rule,
    *trigger_rules.rule,
    *job_rules.rule,
    *tuning_rules.rule,
    *option_rules.rule,
    *strategy_rules.rule,
    *checkpoint_rules.rule,
)


def problems(pipeline: Pipeline) -> list[str]:
    """Every message of the first rule that is broken: later rules may lean on earlier ones."""
    graph = Graph(pipeline)
    for broken in RULES:
        if found := list(broken(graph)):
            return found
    return []


def check(pipeline: Pipeline) -> None:
    """Raise SpecError with the first message, and how many more there are."""
    if found := problems(pipeline):
        more = f" ({len(found) - 1} more like this)" if len(found) > 1 else ""
        raise SpecError(f"Pipeline {pipeline.name!r}: {found[0]}{more}")
