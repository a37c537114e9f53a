"""What a pipeline must not be: one rule, one function, one test. Rules run when a Pipeline is built.

A rule is a generator of messages over the graph; each message says what was given, what is allowed and what to do.
Facts and limits are SageMaker's (design notes: sagemaker.md), which are the strictest of the targets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

from drivetrain.pipelines.errors import SpecError, did_you_mean
from drivetrain.pipelines.secret_names import looks_secret
from drivetrain.pipelines.spec import quotas
from drivetrain.pipelines.spec.conditions import All, AnyOf, Comparison, Condition, In, Not
from drivetrain.pipelines.spec.graph import Graph, find_cycle
from drivetrain.pipelines.spec.pipeline import Pipeline
from drivetrain.pipelines.spec.steps import (
    ConditionStep,
    FolderPath,
    JobStep,
    LambdaStep,
    ProcessingStep,
    RegisterStep,
    TrainingStep,
)
from drivetrain.pipelines.spec.values import (
    TYPE_OF_SCALAR,
    LambdaOutputRef,
    MetricRef,
    OutputRef,
    ParameterRef,
    Value,
    ValueType,
    value_type,
)

Rule = Callable[[Graph], Iterator[str]]
RULES: list[Rule] = []

PIPELINE_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,255}")
STEP_NAME = re.compile(r"[A-Za-z0-9\-_]{1,64}")
PARAMETER_NAME = re.compile(r"[A-Za-z0-9\-_]{1,64}")
UNSPEAKABLE = re.compile("[\0\ud800-\udfff]")
NUMBERS: tuple[ValueType, ...] = ("Integer", "Float")


def rule(function: Rule) -> Rule:
    """Add a rule; rules run in the order in which they are written, the most basic first."""
    RULES.append(function)
    return function


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


@rule
def pipeline_name_is_legal(graph: Graph) -> Iterator[str]:
    if not PIPELINE_NAME.fullmatch(graph.pipeline.name):
        yield "the name is not allowed. Use up to 256 letters, digits and hyphens, beginning and ending without hyphen."


@rule
def step_names_are_legal(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        if not STEP_NAME.fullmatch(step.name):
            yield f"step name {step.name!r} is not allowed. Use 1 to 64 letters, digits, hyphens and underscores."


@rule
def step_names_are_unique(graph: Graph) -> Iterator[str]:
    for name, count in Counter(step.name for step in graph.steps).items():
        if count > 1:
            yield f"{count} steps are called {name!r}. Give each its own: step(component, name='...')."


@rule
def parameters_are_legal(graph: Graph) -> Iterator[str]:
    for parameter in graph.pipeline.parameters:
        if not PARAMETER_NAME.fullmatch(parameter.name):
            yield f"parameter name {parameter.name!r} is not allowed. Use up to 64 letters, digits, - and _."
        for value in (*parameter.choices, *(() if parameter.default is None else (parameter.default,))):
            if not _fits(TYPE_OF_SCALAR[type(value)], parameter.type):
                yield f"parameter {parameter.name!r} is {parameter.type}, but {value!r} is not."
        if parameter.choices and parameter.default is not None and parameter.default not in parameter.choices:
            yield f"parameter {parameter.name!r} defaults to {parameter.default!r}. " + did_you_mean(
                str(parameter.default), map(str, parameter.choices)
            )


@rule
def parameter_names_are_unique(graph: Graph) -> Iterator[str]:
    for name, count in Counter(parameter.name for parameter in graph.pipeline.parameters).items():
        if count > 1:
            yield f"{count} parameters are called {name!r}."


@rule
def limits_are_kept(graph: Graph) -> Iterator[str]:
    if (count := len(graph.pipeline.parameters)) > quotas.MAX_PARAMETERS_AT_START:
        yield f"{count} parameters; at most {quotas.MAX_PARAMETERS_AT_START} can be given at start."
    if (count := len(graph.pipeline.tags)) > quotas.MAX_TAGS:
        yield f"{count} tags; at most {quotas.MAX_TAGS}."
    for step in graph.steps:
        if isinstance(step, JobStep) and len(step.tags) > quotas.MAX_TAGS:
            yield f"step {step.name!r} has {len(step.tags)} tags; at most {quotas.MAX_TAGS}."


@rule
def references_find_their_parameter(graph: Graph) -> Iterator[str]:
    declared = {parameter.name: parameter for parameter in graph.pipeline.parameters}
    for step in graph.steps:
        for reference in graph.references[step.name]:
            if not isinstance(reference, ParameterRef):
                continue
            if reference.name not in declared:
                yield (
                    f"step {step.name!r} uses parameter {reference.name!r}, which is not in Pipeline(parameters=...). "
                    + did_you_mean(reference.name, declared)
                )
            elif declared[reference.name].type != reference.type:
                yield (
                    f"step {step.name!r} uses parameter {reference.name!r} as {reference.type}; "
                    f"it is declared {declared[reference.name].type}."
                )


@rule
def references_find_their_step(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        for name in sorted(graph.needs[step.name]):
            if name not in graph.by_name:
                yield (
                    f"step {step.name!r} needs step {name!r}, which is not in Pipeline(steps=...). "
                    + did_you_mean(name, graph.by_name)
                )


@rule
def references_find_their_output(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        for reference in graph.references[step.name]:
            if isinstance(reference, OutputRef):
                allowed = graph.by_name[reference.step].output_names()
                if reference.output not in allowed:
                    yield (
                        f"step {step.name!r} reads output {reference.output!r} of {reference.step!r}, which has none "
                        f"of that name. {did_you_mean(reference.output, allowed)}"
                    )
            elif isinstance(reference, MetricRef):
                source = graph.by_name[reference.step]
                names = source.metrics if isinstance(source, ProcessingStep) else ()
                if names is not None and reference.name not in names:
                    yield (
                        f"step {step.name!r} reads metric {reference.name!r} of {reference.step!r}, which returns "
                        f"none of that name. {did_you_mean(reference.name, names)}"
                    )
            elif isinstance(reference, LambdaOutputRef):
                source = graph.by_name[reference.step]
                outputs = source.outputs if isinstance(source, LambdaStep) else {}
                if outputs.get(reference.name) != reference.type:
                    yield (
                        f"step {step.name!r} reads {reference.name!r} ({reference.type}) of {reference.step!r}, which "
                        f"returns no such value. {did_you_mean(reference.name, outputs)}"
                    )


@rule
def steps_make_no_cycle(graph: Graph) -> Iterator[str]:
    cycle = find_cycle({step.name: graph.waits_for(step.name) for step in graph.steps})
    if cycle:
        yield f"the steps wait for each other: {' -> '.join(cycle)}. Remove one of these references or depends_on."


@rule
def branches_do_not_rejoin(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        here = graph.branch[step.name]
        for name in sorted(graph.needs[step.name]):
            there = graph.branch[name]
            if here[: len(there)] != there:
                yield (
                    f"step {step.name!r} needs {name!r}, which runs only in the branch {there[-1]!r}. Move it into "
                    "that branch: a branch may not have run, and branches cannot rejoin."
                )


@rule
def conditions_compare_like_with_like(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        if not isinstance(step, ConditionStep):
            continue
        for left, right, ordered in _compared(step.condition):
            a, b = value_type(left), value_type(right)
            if not (a == b or (a in NUMBERS and b in NUMBERS)):
                yield f"condition {step.name!r} compares {a} with {b}. Make both of one type."
            elif ordered and a not in NUMBERS:
                yield f"condition {step.name!r} orders {a} values; only numbers have an order. Use equals or is_in."


@rule
def conditions_have_a_branch(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        if isinstance(step, ConditionStep) and not (step.then or step.otherwise):
            yield f"condition {step.name!r} decides nothing. Give when(..., then=[...]) or otherwise=[...]."


@rule
def folders_fit_a_job(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        if not isinstance(step, JobStep):
            continue
        if "code" in step.inputs:
            yield f"step {step.name!r}: the input name 'code' is taken by the channel of the program."
        most = quotas.MAX_CHANNELS if isinstance(step, TrainingStep) else quotas.MAX_PROCESSING_INPUTS
        if len(step.inputs) + 1 > most:
            yield f"step {step.name!r} has {len(step.inputs) + 1} inputs with the code; at most {most}."
        if len(step.output_names()) > quotas.MAX_PROCESSING_OUTPUTS:
            yield f"step {step.name!r} has {len(step.output_names())} outputs; at most {quotas.MAX_PROCESSING_OUTPUTS}."
        if isinstance(step, TrainingStep) and (others := sorted(set(step.outputs) - {"model", "output"})):
            yield f"step {step.name!r}: a training job has no output {others[0]!r}. Allowed: model, output."
        for argument in step.arguments:
            if isinstance(argument, FolderPath):
                allowed = tuple(step.inputs) if argument.flow == "input" else step.output_names()
                if argument.name not in allowed:
                    yield (
                        f"step {step.name!r}: its arguments name the {argument.flow} {argument.name!r}. "
                        + did_you_mean(argument.name, allowed)
                    )


@rule
def inputs_are_uris(graph: Graph) -> Iterator[str]:
    defaults = {parameter.name: parameter.default for parameter in graph.pipeline.parameters}
    for step in graph.steps:
        if not isinstance(step, JobStep):
            continue
        for name, value in step.inputs.items():
            if value_type(value) != "String":
                yield f"input {name!r} of step {step.name!r} is {value_type(value)}; give a path, URI or output."
            default = defaults.get(value.name) if isinstance(value, ParameterRef) else None
            if isinstance(default, str) and not default.startswith("s3://"):
                yield (
                    f"input {name!r} of step {step.name!r} is parameter {value.name!r}, whose default "  # type: ignore[union-attr]
                    f"{default!r} is no S3 URI. A pipeline parameter is read by the service: use s3://..., or give the "
                    "path in the settings, from where it is uploaded."
                )
            if isinstance(value, str) and ".." in value.split("/"):
                yield f"input {name!r} of step {step.name!r} is {value!r}: '..' is not allowed in a path."


@rule
def arguments_fit(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        if not isinstance(step, JobStep):
            continue
        limit = (
            quotas.MAX_HYPERPARAMETER_CHARACTERS if isinstance(step, TrainingStep) else quotas.MAX_ARGUMENT_CHARACTERS
        )
        for name, value in (*step.parameters.items(), *((f"argument {i}", v) for i, v in enumerate(step.arguments))):
            if isinstance(value, str) and len(value) > limit:
                yield (
                    f"step {step.name!r}: {name} has {len(value)} characters; at most {limit} can be passed. Put it "
                    "into a file of an input folder."
                )
        if isinstance(step, TrainingStep):
            if len(step.parameters) > quotas.MAX_HYPERPARAMETERS:
                yield f"step {step.name!r} has {len(step.parameters)} parameters; at most {quotas.MAX_HYPERPARAMETERS}."
        else:
            # two arguments a folder and parameter, and three before them: --code, its hash, the target
            count = 2 * (len(step.inputs) + len(step.output_names()) + len(step.parameters)) + len(step.arguments) + 3
            if count > quotas.MAX_ARGUMENTS:
                yield f"step {step.name!r} needs {count} command-line arguments; at most {quotas.MAX_ARGUMENTS}."


@rule
def texts_can_be_passed(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        given: dict[str, object] = {"display_name": step.display_name, "description": step.description}
        if isinstance(step, JobStep):
            given |= {**step.inputs, **step.parameters, **step.environment}
            given |= {f"argument {number}": value for number, value in enumerate(step.arguments)}
        for name, value in given.items():
            if isinstance(value, str) and UNSPEAKABLE.search(value):
                yield (
                    f"step {step.name!r}: {name} is {value!r:.80}. Neither an argument, a variable nor a path can hold "
                    "the character NUL or half a surrogate pair. Take it out."
                )


@rule
def machines_make_sense(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        if not isinstance(step, JobStep):
            continue
        for field in ("instance_type", "count"):
            value = getattr(step.cluster, field)
            wanted: ValueType = "String" if field == "instance_type" else "Integer"
            if isinstance(value, ParameterRef) and value.type != wanted:
                yield f"step {step.name!r}: cluster.{field} is {value.type} parameter {value.name!r}, not {wanted}."
        spot = step.cluster.spot
        if not isinstance(step, TrainingStep):
            if spot or step.cluster.warm_pool_seconds:
                yield f"step {step.name!r}: spot machines and warm pools are for training jobs; remove them here."
            continue
        if spot and spot.max_wait_seconds < step.cluster.max_run_seconds:
            yield (
                f"step {step.name!r}: spot.max_wait_seconds ({spot.max_wait_seconds}) is less than max_run_seconds "
                f"({step.cluster.max_run_seconds}), which it includes. Raise it, or lower max_run_seconds."
            )
        if spot and step.checkpoint is None:
            yield (
                f"step {step.name!r} runs on spot machines without a checkpoint location: an interruption would lose "
                "everything. Give checkpoint=Checkpoint()."
            )
        if spot and step.cluster.warm_pool_seconds:
            yield f"step {step.name!r}: the service has no warm pools for spot machines; choose one."


@rule
def checkpoint_prefixes_end_with_a_slash(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        if isinstance(step, TrainingStep) and step.checkpoint and isinstance(step.checkpoint.uri, str):
            uri = step.checkpoint.uri
            if not (uri.startswith("s3://") and uri.endswith("/")):
                yield (
                    f"step {step.name!r}: the checkpoint location {uri!r} must be s3://bucket/prefix/ with a final "
                    "slash; without it a job also restores the files of every sibling with the same beginning."
                )


@rule
def secrets_stay_out(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        if isinstance(step, JobStep):
            for name, value in {**step.parameters, **step.environment}.items():
                if looks_secret(name) and isinstance(value, str) and value and not value.startswith("arn:"):
                    yield (
                        f"step {step.name!r}: {name!r} looks like a secret. Parameters and environment are readable by "
                        "everyone who may describe the pipeline; pass the ARN of a Secrets Manager secret instead."
                    )


@rule
def registered_models_are_models(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        if isinstance(step, RegisterStep):
            for field in ("group", "model", "approval"):
                if value_type(getattr(step, field)) != "String":
                    yield f"step {step.name!r}: {field} is {value_type(getattr(step, field))}, not String."


@rule
def triggers_make_sense(graph: Graph) -> Iterator[str]:
    declared = {parameter.name for parameter in graph.pipeline.parameters}
    for name, count in Counter(trigger.name for trigger in graph.pipeline.triggers).items():
        if count > 1:
            yield f"{count} triggers are called {name!r}."
    for trigger in graph.pipeline.triggers:
        for name in trigger.parameters:
            if name not in declared:
                yield f"trigger {trigger.name!r} gives parameter {name!r}. {did_you_mean(name, declared)}"
            elif trigger.kind != "schedule" and "_" in name:
                yield f"trigger {trigger.name!r}: event rules forbid '_' in parameter names; rename {name!r}."
        if trigger.kind == "schedule" and (trigger.cron is None) == (trigger.rate is None):
            yield f"trigger {trigger.name!r} needs either cron or rate."


def _fits(given: ValueType, wanted: ValueType) -> bool:
    return given == wanted or (given == "Integer" and wanted == "Float")


def _compared(condition: Condition) -> Iterator[tuple[Value, Value, bool]]:
    if isinstance(condition, Comparison):
        yield condition.left, condition.right, condition.operator != "Equals"
    elif isinstance(condition, In):
        for option in condition.options:
            yield condition.value, option, False
    elif isinstance(condition, Not):
        yield from _compared(condition.condition)
    else:
        assert isinstance(condition, All | AnyOf)
        for part in condition.conditions:
            yield from _compared(part)
