"""Find what SageMaker Pipelines does not accept in a pipeline. Here are the rules about how many, how long, how large,
and on which machines (quotas.py); those about options, tunings and Debugger are in the files *_rules.py beside this
one.

drivetrain/rules/rules.py asks, and says when.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from drivetrain.base.errors import shown
from drivetrain.catalog import quotas
from drivetrain.catalog.instances import find_instance, processing_instance_type
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import BaseStep, JobStep, NativeStep, ProcessingStep, TrainingStep, TuningStep
from drivetrain.spec.values import ExecutionRef, Value
from drivetrain.steps import spread
from drivetrain.targets.sagemaker import option_rules

rule = RuleBook("sagemaker")
TAG_TEXT = re.compile(r"[\w .:/=+\-@]*")


def about_jobs(graph: Graph) -> Iterator[RuleBook]:
    yield rule
    if any(type(step) is TuningStep for step in graph.steps):
        from drivetrain.targets.sagemaker import tuning_rules

        yield tuning_rules.rule
    yield option_rules.rule


def about_trainings(graph: Graph) -> Iterator[RuleBook]:
    if any(isinstance(step, TrainingStep) for step in graph.steps):
        from drivetrain.targets.sagemaker import debugger_rules

        yield debugger_rules.rule


@rule
def limits_are_kept(graph: Graph) -> Iterator[str]:
    most = quotas.MAX_PARAMETERS_AT_START - 1  # beside that of --fresh
    if (count := len(graph.pipeline.parameters)) > most:
        yield f"{count} parameters; at most {most} can be given at start."
    for parameter in graph.pipeline.parameters:
        if (count := len(parameter.choices)) > quotas.MAX_CHOICES:
            yield (
                f"parameter {parameter.name!r} offers {count} choices; at most {quotas.MAX_CHOICES}. Leave choices out "
                "and let the step refuse other values, or make it a setting, which is chosen when compiling."
            )
    if (count := len(graph.pipeline.tags)) > quotas.MAX_TAGS:
        yield f"{count} tags; at most {quotas.MAX_TAGS}."
    for step in graph.steps:
        if isinstance(step, JobStep) and len(step.tags) > quotas.MAX_TAGS:
            yield f"step {step.name!r} has {len(step.tags)} tags; at most {quotas.MAX_TAGS}."


@rule
def tags_are_legal(graph: Graph) -> Iterator[str]:
    of_jobs = [(f"step {step.name!r}: ", step.tags) for step in graph.steps if isinstance(step, JobStep)]
    for where, tags in [("", graph.pipeline.tags), *of_jobs]:
        for key, value in tags.items():
            if key.lower().startswith("aws:"):
                yield f"{where}the tag {shown(key)} begins with 'aws:', which is AWS's own. Call it otherwise."
            for what, text, least, most in (
                ("key", key, 1, quotas.MAX_TAG_KEY_CHARACTERS),
                ("value", value, 0, quotas.MAX_TAG_VALUE_CHARACTERS),
            ):
                if not (least <= len(text) <= most and TAG_TEXT.fullmatch(text)):
                    yield (
                        f"{where}the tag {shown(key)} has a {what} that is not allowed, {shown(text)}. Use {least} to "
                        f"{most} letters, digits, spaces and _ . : / = + - @."
                    )


@rule.each(BaseStep)
def job_names_are_of_jobs_that_the_step_starts(step: BaseStep, graph: Graph) -> Iterator[str]:
    if isinstance(step, NativeStep):  # its type says, in the definition
        return
    for reference in graph.references[step.name]:
        if not isinstance(reference, ExecutionRef) or not reference.field.endswith("JobName"):
            continue
        kind = TrainingStep if reference.field == "TrainingJobName" else ProcessingStep
        if not isinstance(step, kind) or isinstance(step, TuningStep):
            yield (
                f"step {step.name!r}: execution({reference.field!r}) is the name of the job that the step itself "
                "starts, and this one starts no such job. For another step's give "
                f"other.property({reference.field!r})."
            )


@rule.each(JobStep)
def jobs_take_so_many_folders(step: JobStep, graph: Graph) -> Iterator[str]:
    most = quotas.MAX_CHANNELS if isinstance(step, TrainingStep) else quotas.MAX_PROCESSING_INPUTS
    if len(step.inputs) + 1 > most:
        yield f"step {step.name!r} has {len(step.inputs) + 1} inputs with the code; at most {most}."
    if len(step.output_names()) > quotas.MAX_PROCESSING_OUTPUTS:
        yield f"step {step.name!r} has {len(step.output_names())} outputs; at most {quotas.MAX_PROCESSING_OUTPUTS}."
    if isinstance(step, TrainingStep) and (others := sorted(set(step.outputs) - {"model", "output"})):
        yield f"step {step.name!r}: a training job has no output {others[0]!r}. Allowed: model, output."


@rule.each(JobStep)
def arguments_fit(step: JobStep, graph: Graph) -> Iterator[str]:
    limit = quotas.MAX_HYPERPARAMETER_CHARACTERS if isinstance(step, TrainingStep) else quotas.MAX_ARGUMENT_CHARACTERS
    # A component's texts are spread over several arguments where one cannot hold them.
    given = step.parameters if isinstance(step, TrainingStep) or step.program.kind == "script" else {}
    for name, value in (*given.items(), *((f"argument {i}", v) for i, v in enumerate(step.arguments))):
        if isinstance(value, str) and len(value) > limit:
            yield (
                f"step {step.name!r}: {name} has {len(value)} characters; at most {limit} can be passed. Put it "
                "into a file of an input folder."
            )
        if isinstance(value, str) and "\n" in value:
            yield f"step {step.name!r}: {name} has line breaks, which are not passed. Write it in one line."
    if isinstance(step, TrainingStep):
        if len(step.parameters) > quotas.MAX_HYPERPARAMETERS:
            yield f"step {step.name!r} has {len(step.parameters)} parameters; at most {quotas.MAX_HYPERPARAMETERS}."
    else:
        # two arguments a folder and parameter, and three before them: --code, its hash, the target
        count = 2 * (len(step.inputs) + len(step.output_names())) + len(step.arguments) + 3
        words = {name: _words(value) for name, value in step.parameters.items()}
        count += sum(words.values())
        if count > quotas.MAX_ARGUMENTS:
            longest = max(words, key=lambda name: words[name], default="")
            yield f"step {step.name!r} needs {count} command-line arguments; at most {quotas.MAX_ARGUMENTS}." + (
                f" {longest} takes {words[longest]} of them, two for every {limit} characters. Shorten it, or "
                "divide it over two steps."
                if words.get(longest, 0) > 2
                else ""
            )


def _words(value: Value) -> int:
    """How many command-line arguments a parameter takes, with its flag."""
    return len(spread("", value, quotas.MAX_ARGUMENT_CHARACTERS)) if isinstance(value, str) else 2


@rule.each(JobStep)
def jobs_end_in_time(step: JobStep, graph: Graph) -> Iterator[str]:
    longest = quotas.MAX_RUN_SECONDS["Training" if isinstance(step, TrainingStep) else "Processing"]
    if step.cluster.max_run_seconds > longest:
        yield (
            f"step {step.name!r}: cluster.max_run_seconds is {step.cluster.max_run_seconds:,}; the service ends "
            f"such a job after {longest:,} seconds."
        )


@rule.each(JobStep)
def warm_pools_are_of_trainings(step: JobStep, graph: Graph) -> Iterator[str]:
    if not step.cluster.warm_pool_seconds:
        return
    if not isinstance(step, TrainingStep):
        yield f"step {step.name!r}: warm pools are for training jobs; remove cluster.warm_pool_seconds here."
    elif step.cluster.spot is not None:
        yield f"step {step.name!r}: the service has no warm pools for spot machines; choose one."


@rule.each(JobStep)
def processing_jobs_have_the_machine(step: JobStep, graph: Graph) -> Iterator[str]:
    kind = step.cluster.machine
    if not isinstance(kind, str) or isinstance(step, TrainingStep):
        return
    machine = find_instance(kind)
    if machine is not None and not machine.processing:
        other = processing_instance_type(kind)
        facts = find_instance(other)
        yield (
            f"step {step.name!r}: processing jobs have no {kind}; training jobs have. Choose another machine, such "
            f"as {other}" + (f" ({facts.described()})." if facts else ".")
        )


@rule.each(TrainingStep)
def checkpoint_prefixes_end_with_a_slash(step: TrainingStep, graph: Graph) -> Iterator[str]:
    if step.checkpoint and isinstance(step.checkpoint.uri, str):
        uri = step.checkpoint.uri
        if not (uri.startswith("s3://") and uri.endswith("/")):
            yield (
                f"step {step.name!r}: the checkpoint location {uri!r} must be s3://bucket/prefix/ with a final "
                "slash; without it a job also restores the files of every sibling with the same beginning."
            )
