"""Rules about tunings: what can be searched, and what the service's tuning jobs do not have.

https://docs.aws.amazon.com/sagemaker/latest/dg/automatic-model-tuning-limits.html
That there are as many combinations as trainings is what CreateHyperParameterTuningJob answers:
https://github.com/aws/amazon-sagemaker-operator-for-k8s/issues/123
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod

from drivetrain.base.errors import did_you_mean
from drivetrain.catalog import quotas
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import TuningStep
from drivetrain.spec.training_options import Between, OneOf, Range
from drivetrain.spec.values import ParameterRef

rule = RuleBook("sagemaker")


def _num_values(given: Range) -> float:
    """How many values a range has."""
    if isinstance(given, OneOf):
        return len(given.values)
    return given.high - given.low + 1 if given.whole else inf


@rule.each(TuningStep)
def something_is_searched(step: TuningStep, graph: Graph) -> Iterator[str]:
    if not step.search.ranges:
        yield f"step {step.name!r} searches nothing. Give a range: learning_rate=between(1e-4, 0.1)."
    if len(step.search.ranges) > quotas.MAX_TUNED_HYPERPARAMETERS:
        yield (
            f"step {step.name!r} searches {len(step.search.ranges)} hyperparameters; at most "
            f"{quotas.MAX_TUNED_HYPERPARAMETERS}."
        )
    for name in step.search.ranges:
        if name in step.parameters:
            yield f"step {step.name!r}: {name!r} has a range and a value. Remove one of the two."


@rule.each(TuningStep)
def the_objective_is_logged(step: TuningStep, graph: Graph) -> Iterator[str]:
    if step.search.objective not in step.logs:
        yield (
            f"step {step.name!r}: its trainings do not log the objective {step.search.objective!r}. "
            f"{did_you_mean(step.search.objective, step.logs)} For another metric add a pattern to the `logs` of "
            "the component."
        )


@rule.each(TuningStep)
def the_number_of_trainings_is_known(step: TuningStep, graph: Graph) -> Iterator[str]:
    search = step.search
    limits = (
        ("max_trainings", search.max_trainings, quotas.DEFAULT_TUNED_JOBS),
        ("max_parallel", search.max_parallel, None),
    )
    for field, value, most in limits:
        if isinstance(value, ParameterRef):
            if value.type != "Integer":
                yield f"step {step.name!r}: {field} is {value.type} parameter {value.name!r}, not Integer."
        elif value is not None and value < 1:
            yield f"step {step.name!r}: {field} is {value}; at least 1."
        elif value is not None and most is not None and value > most:
            yield f"step {step.name!r}: {field} is {value:,}; a tuning has at most {most} trainings."
    parallel, most = search.max_parallel, search.max_trainings
    if isinstance(parallel, int) and isinstance(most, int) and parallel > most:
        yield f"step {step.name!r}: max_parallel is {parallel}, and there are {most} trainings. Lower it."
    if search.strategy != "Grid":
        count = prod(map(_num_values, search.ranges.values()))
        if isinstance(most, int) and count < most:
            yield (
                f"step {step.name!r}: its ranges have {count:.0f} combinations, and max_trainings is {most}. The "
                "service refuses more trainings than there are. Lower it."
            )
        if search.max_trainings is None:
            yield f"step {step.name!r}: give max_trainings, the number of trainings that may be run."
        return
    if numbers := [name for name, one in search.ranges.items() if isinstance(one, Between)]:
        yield f"step {step.name!r}: a grid is of values. Give {numbers[0]}=one_of(...), or another strategy."
    total = prod(len(one.values) for one in search.ranges.values() if isinstance(one, OneOf))
    if not numbers and total > quotas.DEFAULT_TUNED_JOBS:
        yield (
            f"step {step.name!r}: the grid has {total:,} combinations; a tuning has at most "
            f"{quotas.DEFAULT_TUNED_JOBS} trainings. List fewer values."
        )
    if isinstance(search.max_trainings, int) and not numbers and search.max_trainings != total:
        yield (
            f"step {step.name!r}: the grid has {total} combinations, and max_trainings is {search.max_trainings}. "
            "Leave it out."
        )


@rule.each(TuningStep)
def hyperband_stops_by_itself(step: TuningStep, graph: Graph) -> Iterator[str]:
    search = step.search
    if search.strategy == "Hyperband" and search.early_stopping:
        yield f"step {step.name!r}: Hyperband stops trainings by rules of its own. Leave early_stopping out."
    if search.strategy == "Hyperband" and search.epochs is None:
        yield f"step {step.name!r}: Hyperband needs epochs=(least, most) of a training."
    if search.strategy != "Hyperband" and search.epochs is not None:
        yield f"step {step.name!r}: epochs=(least, most) is Hyperband's. Leave it out, or take that strategy."
    if search.epochs is not None and search.epochs[0] > search.epochs[1]:
        yield f"step {step.name!r}: epochs={search.epochs}: the least comes first."


@rule.each(TuningStep)
def tunings_keep_no_checkpoints(step: TuningStep, graph: Graph) -> Iterator[str]:
    if step.cluster.spot is not None:
        yield (
            f"step {step.name!r} tunes on spot machines. Where the service keeps the checkpoints of each of a "
            "tuning's trainings is not documented, so an interrupted one would begin anew or go on from "
            "another's. Leave cluster.spot out."
        )
    if step.checkpoint is not None and step.checkpoint.uri is not None:
        yield f"step {step.name!r}: the trainings of a tuning keep no checkpoints. Leave checkpoint= out."


@rule.each(TuningStep)
def tunings_have_what_their_trainings_may_have(step: TuningStep, graph: Graph) -> Iterator[str]:
    if step.cluster.alternatives and step.cluster.warm_pool_seconds:
        # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_HyperParameterTuningResourceConfig.html
        yield (
            f"step {step.name!r}: where a tuning chooses among machines, the service takes no "
            "cluster.warm_pool_seconds: its trainings hand their machines on by themselves. Leave it out."
        )
    for option in ("debugger", "remote_debug", "tensorboard"):
        if getattr(step.options, option):
            yield (
                f"step {step.name!r}: the service's tuning jobs have no options.{option}. Leave it out, or run the "
                "best hyperparameters in a training step with it."
            )
