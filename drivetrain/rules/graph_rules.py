"""Rules about the pipeline as a whole: names, references, branches, conditions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from drivetrain.base.errors import did_you_mean, nearest
from drivetrain.catalog import quotas
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph, Parameter, find_cycle
from drivetrain.spec.steps import BaseStep, ConditionStep, LambdaStep, NativeStep, ProcessingStep, RegisterStep
from drivetrain.spec.values import (
    TYPE_OF_SCALAR,
    All,
    AnyOf,
    Comparison,
    Condition,
    In,
    LambdaOutputRef,
    MetricRef,
    Not,
    OutputRef,
    ParameterRef,
    Value,
    ValueType,
    value_type,
)
from drivetrain.steps import FRESH_PARAMETER, NOT_FRESH

rule = RuleBook()

PIPELINE_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,255}")
STEP_NAME = re.compile(r"[A-Za-z0-9\-_]{1,64}")
PARAMETER_NAME = re.compile(r"[A-Za-z0-9\-_]{1,64}")
# A step's fields that are the spec's own -> how they are given.
_OF_EVERY_STEP = {
    "Name": "name",
    "Type": "type",
    "DisplayName": "display_name",
    "Description": "description",
    "DependsOn": "depends_on",
}
NUMBERS: tuple[ValueType, ...] = ("Integer", "Float")


@rule
def pipeline_name_is_legal(graph: Graph) -> Iterator[str]:
    if not PIPELINE_NAME.fullmatch(graph.pipeline.name):
        yield "the name is not allowed. Use up to 256 letters, digits and hyphens, beginning and ending without hyphen."


@rule.each(BaseStep)
def step_names_are_legal(step: BaseStep, graph: Graph) -> Iterator[str]:
    if not STEP_NAME.fullmatch(step.name):
        yield f"step name {step.name!r} is not allowed. Use 1 to 64 letters, digits, hyphens and underscores."


@rule.each(NativeStep)
def native_steps_leave_out_what_is_written(step: NativeStep, graph: Graph) -> Iterator[str]:
    if taken := _OF_EVERY_STEP.keys() & step.fields.keys():
        field = sorted(taken)[0]
        yield (
            f"step {step.name!r}: NativeStep(fields=...) gives {field!r}, which is written of every step. Give it "
            f"as NativeStep({_OF_EVERY_STEP[field]}=...)."
        )


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
        if parameter.name == FRESH_PARAMETER and parameter != Parameter.string(FRESH_PARAMETER, NOT_FRESH):
            yield f"parameter name {FRESH_PARAMETER!r} is taken by starts with --fresh. Give yours another name."
        for value in parameter.values:
            if not _fits(TYPE_OF_SCALAR[type(value)], parameter.type):
                yield f"parameter {parameter.name!r} is {parameter.type}, but {value!r} is not."
            if isinstance(value, str) and len(value) > quotas.MAX_PARAMETER_VALUE_CHARACTERS:
                yield (
                    f"parameter {parameter.name!r} has a value of {len(value):,} characters; at most "
                    f"{quotas.MAX_PARAMETER_VALUE_CHARACTERS:,} can be given at start. Use a file of an input folder."
                )
        if parameter.choices and parameter.default is not None and parameter.default not in parameter.choices:
            yield f"parameter {parameter.name!r} defaults to {parameter.default!r}. " + did_you_mean(
                str(parameter.default), map(str, parameter.choices)
            )


@rule
def parameter_names_are_unique(graph: Graph) -> Iterator[str]:
    for name, count in Counter(parameter.name for parameter in graph.pipeline.parameters).items():
        if count > 1:
            yield f"{count} parameters are called {name!r}."


@rule.each(BaseStep)
def references_find_their_parameter(step: BaseStep, graph: Graph) -> Iterator[str]:
    declared = graph.parameters
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


@rule.each(BaseStep)
def references_find_their_step(step: BaseStep, graph: Graph) -> Iterator[str]:
    for name in sorted(graph.needs[step.name]):
        if name not in graph.by_name:
            close = nearest(name, graph.by_name)
            yield (
                f"step {step.name!r} needs step {name!r}, which is not in Pipeline(steps=...). Add it there."
                + (f" Or did you mean {close!r}?" if close else "")
            )


@rule.each(BaseStep)
def references_find_their_output(step: BaseStep, graph: Graph) -> Iterator[str]:
    for reference in graph.references[step.name]:
        if isinstance(reference, MetricRef) and reference.file:
            yield from _reported(step, reference, graph.by_name[reference.step])
        elif isinstance(reference, OutputRef):
            allowed = graph.by_name[reference.step].output_names()
            if reference.output not in allowed:
                yield (
                    f"step {step.name!r} reads output {reference.output!r} of {reference.step!r}, which has none "
                    f"of that name. {did_you_mean(reference.output, allowed)}"
                )
        elif isinstance(reference, MetricRef):
            source = graph.by_name[reference.step]
            names = source.metrics if isinstance(source, ProcessingStep) else ()
            texts = source.texts if isinstance(source, ProcessingStep) else ()
            wanted = texts if reference.type == "String" else names
            if wanted is not None and reference.name not in wanted:
                yield (
                    f"step {step.name!r} reads {'text' if wanted is texts else 'metric'} {reference.name!r} of "
                    f"{reference.step!r}, which returns none of that name. {did_you_mean(reference.name, wanted)}"
                )
            elif reference.type == "Float" and reference.name in texts:
                yield (
                    f"step {step.name!r} reads {reference.name!r} of {reference.step!r} as a number, but it is a "
                    "text. Take it by text(...)."
                )
        elif isinstance(reference, LambdaOutputRef):
            source = graph.by_name[reference.step]
            outputs = source.outputs if isinstance(source, LambdaStep) else {}
            if outputs.get(reference.name) != reference.type:
                yield (
                    f"step {step.name!r} reads {reference.name!r} ({reference.type}) of {reference.step!r}, which "
                    f"returns no such value. {did_you_mean(reference.name, outputs)}"
                )


def _reported(step: BaseStep, reference: MetricRef, source: BaseStep) -> Iterator[str]:
    """That no value can be read from a file of a step; a native step names its files itself."""
    output, _, file = reference.file.partition("/")
    if isinstance(source, NativeStep):
        return
    if not isinstance(source, ProcessingStep):
        yield (
            f"step {step.name!r} reads {reference.file!r} of {source.name!r}, which is no processing step. Take what a "
            "training logs, .logged('loss'), or let a script read the file."
        )
    elif output not in source.output_names() or not file:
        yield (
            f"step {step.name!r} reads {reference.file!r} of {source.name!r}. Give a file in one of its outputs. "
            + did_you_mean(output, source.output_names())
        )


@rule
def steps_make_no_cycle(graph: Graph) -> Iterator[str]:
    cycle = find_cycle({step.name: graph.waits_for(step.name) for step in graph.steps})
    if cycle:
        yield f"the steps wait for each other: {' -> '.join(cycle)}. Remove one of these references or depends_on."


@rule.each(BaseStep)
def branches_do_not_rejoin(step: BaseStep, graph: Graph) -> Iterator[str]:
    here = graph.branch[step.name]
    for name in sorted(graph.needs[step.name]):
        there = graph.branch[name]
        if here[: len(there)] == there:
            continue
        if name in graph.loops:
            loop = graph.loops[name].name
            yield (
                f"step {step.name!r} needs {name!r}, which stands in the body of {loop!r} and runs once an item. "
                "Take what it gave there: best['...'], of(0, step)['...'], count()."
            )
        else:
            yield (
                f"step {step.name!r} needs {name!r}, which runs only in the branch {there[-1]!r}. Move it into "
                "that branch: a branch may not have run, and branches cannot rejoin."
            )


@rule.each(ConditionStep)
def conditions_compare_like_with_like(step: ConditionStep, graph: Graph) -> Iterator[str]:
    from drivetrain.spec.comparisons import incomparable  # few pipelines have conditions

    for left, right, ordered in _compared(step.condition):
        a, b = value_type(left), value_type(right)
        if (problem := incomparable(a, b, ordered=ordered)) is not None:
            yield f"condition {step.name!r} {problem}"
        elif ordered and a not in NUMBERS:
            yield f"condition {step.name!r} orders {a} values; only numbers have an order. Use equals or is_in."


@rule.each(ConditionStep)
def conditions_have_a_branch(step: ConditionStep, graph: Graph) -> Iterator[str]:
    if not (step.then or step.otherwise):
        yield f"condition {step.name!r} decides nothing. Give when(..., then=[...]) or otherwise=[...]."


@rule.each(RegisterStep)
def registered_models_are_models(step: RegisterStep, graph: Graph) -> Iterator[str]:
    for field in ("group", "model", "metrics", "evaluation", "decision", "approval"):
        value = getattr(step, field)
        if value is not None and value_type(value) != "String":
            yield f"step {step.name!r}: {field} is {value_type(value)}, not String."


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
