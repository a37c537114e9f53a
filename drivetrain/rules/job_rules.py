"""Rules about the steps that run programs: folders, arguments, machines, checkpoints, secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.masking import looks_secret, without_shapes
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import FolderPath
from drivetrain.spec.steps import BaseStep, JobStep, TrainingStep
from drivetrain.spec.values import ParameterRef, ValueType, value_type
from drivetrain.steps import FRESH_VARIABLE

rule = RuleBook()

FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
UNSPEAKABLE = re.compile("[\0\ud800-\udfff]")


@rule.each(JobStep)
def folders_fit_a_job(step: JobStep, graph: Graph) -> Iterator[str]:
    if FRESH_VARIABLE in step.environment:
        yield f"step {step.name!r}: the variable {FRESH_VARIABLE} is set by starts with --fresh. Leave it out."
    if "code" in step.inputs:
        yield f"step {step.name!r}: the input name 'code' is taken by the channel of the program."
    for flow, names in (("input", list(step.inputs)), ("output", list(step.output_names()))):
        for name in names:
            if not FOLDER_NAME.fullmatch(name):
                yield (
                    f"step {step.name!r}: the {flow} name {name!r} is not allowed: it names a folder. Use letters, "
                    "digits, '.', '-' and '_', a letter or digit first."
                )
        if twice := [name for name in names if names.count(name) > 1]:
            yield f"step {step.name!r}: two {flow}s are called {twice[0]!r}. Give each its own name."
    for argument in step.arguments:
        if isinstance(argument, FolderPath):
            allowed = tuple(step.inputs) if argument.flow == "input" else step.output_names()
            if argument.name not in allowed:
                yield (
                    f"step {step.name!r}: its arguments name the {argument.flow} {argument.name!r}. "
                    + did_you_mean(argument.name, allowed)
                )


@rule.each(JobStep)
def inputs_are_uris(step: JobStep, graph: Graph) -> Iterator[str]:
    for name, value in step.inputs.items():
        if value_type(value) != "String":
            yield f"input {name!r} of step {step.name!r} is {value_type(value)}; give a path, URI or output."
        if isinstance(value, str) and not value.strip():  # as a path, all of the folder one stands in
            yield f"input {name!r} of step {step.name!r} is empty. Give a path, URI or output."
        declared = graph.parameters.get(value.name) if isinstance(value, ParameterRef) else None
        default = declared.default if declared is not None else None
        if isinstance(default, str) and not default.startswith("s3://"):
            yield (
                f"input {name!r} of step {step.name!r} is parameter {value.name!r}, whose default "  # type: ignore[union-attr]
                f"{default!r} is no S3 URI. A pipeline parameter is read by the service: use s3://..., or give the "
                "path in the settings, from where it is uploaded."
            )
        if isinstance(value, str) and value.startswith("s3://") and ".." in value.split("/"):
            yield f"input {name!r} of step {step.name!r} is {value!r}: '..' is not allowed in a URI."


@rule
def ages_of_caches_are_durations(graph: Graph) -> Iterator[str]:
    given = [(f"step {each.name!r}", each.cache) for each in graph.steps if isinstance(each, JobStep)]
    for where, policy in [("the pipeline", graph.pipeline.cache), *given]:
        if policy is None or policy.expire_after is None:
            continue
        from drivetrain.spec.durations import seconds

        try:
            seconds(policy.expire_after)
        except UserError as error:
            yield f"{where}: cache.expire_after: {error}"


@rule.each(BaseStep)
def texts_can_be_passed(step: BaseStep, graph: Graph) -> Iterator[str]:
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


@rule.each(JobStep)
def machines_make_sense(step: JobStep, graph: Graph) -> Iterator[str]:
    for field in ("instance_type", "count"):
        value = getattr(step.cluster, field)
        wanted: ValueType = "String" if field == "instance_type" else "Integer"
        if isinstance(value, ParameterRef) and value.type != wanted:
            yield f"step {step.name!r}: cluster.{field} is {value.type} parameter {value.name!r}, not {wanted}."
    spot = step.cluster.spot
    if isinstance(spot, ParameterRef):
        return  # spot_is_decided_when_compiled tells why not
    if not isinstance(step, TrainingStep):
        if spot:
            yield f"step {step.name!r}: spot machines are for trainings; remove cluster.spot here."
        return
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


@rule.each(JobStep)
def spot_is_decided_when_compiled(step: JobStep, graph: Graph) -> Iterator[str]:
    if isinstance(step.cluster.spot, ParameterRef):
        yield (
            f"step {step.name!r}: cluster.spot is parameter {step.cluster.spot.name!r}, whose value is only known "
            "when the pipeline starts. The service rejects MaxWaitTimeInSeconds without spot machines, and no "
            "definition that drivetrain writes leaves a field out when it starts. Make it a setting (spot: bool = "
            "False, and cluster=Cluster(spot=Spot(...) if settings.spot else None)): --set spot=false then "
            "compiles the pipeline anew, and a training goes on from its checkpoints."
        )


@rule.each(JobStep)
def secrets_stay_out(step: JobStep, graph: Graph) -> Iterator[str]:
    for name, value in {**step.parameters, **step.environment}.items():
        if not isinstance(value, str) or not value or value.startswith("arn:"):
            continue
        if looks_secret(name) or without_shapes(value) != value:
            yield (
                f"step {step.name!r}: {name!r} looks like a secret, or holds one. Parameters and environment "
                "are readable by everyone who may describe the pipeline; pass the ARN of a Secrets Manager "
                "secret instead."
            )
