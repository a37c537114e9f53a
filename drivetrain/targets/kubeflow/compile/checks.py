"""Refuses what Kubeflow Pipelines cannot express, by step and field.

One rule, one small function; each says what to use instead.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from drivetrain.assets.image import runs_on_spark
from drivetrain.base.errors import did_you_mean
from drivetrain.resolving.vendor_libraries import library_of
from drivetrain.spec.pipeline import Graph, GroupTrigger, Pipeline, Schedule
from drivetrain.spec.resources import Spot
from drivetrain.spec.steps import (
    KUBEFLOW_TASK,
    TRAIN,
    BaseStep,
    ConditionStep,
    ForEachStep,
    JobStep,
    LambdaStep,
    NativeStep,
    RegisterStep,
    TrainingStep,
    TuningStep,
)
from drivetrain.spec.training_options import TrainingOptions
from drivetrain.spec.values import (
    CountRef,
    ExecutionRef,
    IterationRef,
    LambdaOutputRef,
    LoggedRef,
    MetricRef,
    OutputRef,
    ParameterRef,
    PropertyRef,
    Reference,
    references_in,
)
from drivetrain.targets.kubeflow.compile import fails
from drivetrain.targets.kubeflow.compile.mounts import CHECKPOINTS
from drivetrain.targets.kubeflow.compile.notices import NOTICE, STEPS
from drivetrain.targets.kubeflow.compile.train_job import num_nodes, variables
from drivetrain.targets.kubeflow.compile.words import integers_in, problem_of
from drivetrain.targets.kubeflow.image_names import ALLOWED, image_name, image_problem
from drivetrain.targets.kubeflow.schedules import CannotSayError, trigger_of
from drivetrain.targets.kubeflow.settings import RESERVED_VARIABLES, settings_of
from drivetrain.targets.target import Problem

_TEXT = "text-of-"
LONGEST_NAME = 128
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_EXECUTION = ("PipelineName", "PipelineExecutionId")
_LOG = re.compile(r"executor-logs(-[0-9]+)?")
# Of a TrainJob's trainer (its CRD).
_MOST_VARIABLES = 128

# What the images for steps and trainings are called (infra/kubeflow/images).
_WITHOUT_JAVA = ("drivetrain-cpu", "drivetrain-gpu")

S = TypeVar("S", bound=BaseStep)
_OF_STEPS: list[tuple[type[BaseStep], Callable[[Any, Graph], Iterator[Problem]]]] = []


def task_name(name: str) -> str:
    """A step's name as a task's: lower case, and single dashes between letters and digits."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def key_of(metric: str) -> str:
    """The output parameter in which a metric is handed on: its name, if a condition can spell that, and if it is not
    that of another metric's text (`text_key_of`)."""
    if _KEY.fullmatch(metric) and "--" not in metric and not metric.startswith(_TEXT):
        return metric
    plain = re.sub(r"[^A-Za-z0-9]+", "_", metric).strip("_")
    return f"{plain}_{hashlib.sha256(metric.encode()).hexdigest()[:8]}"


def metric_name(metric: MetricRef) -> str:
    return f"{metric.file}:{metric.name}" if metric.file else metric.name


def text_key_of(metric: str) -> str:
    """The output parameter in which it is handed on as JSON text."""
    return f"{_TEXT}{key_of(metric)}"


def check(pipeline: Pipeline) -> list[Problem]:
    """All problems, in the order of the steps; those of the pipeline come first."""
    settings_of(pipeline.deployment)
    graph = Graph(pipeline)
    found = [*_names(graph), *_step_settings(graph), *_triggers(pipeline)]
    for step in graph.steps:
        for kind, rule in _OF_STEPS:
            if isinstance(step, kind):
                found += rule(step, graph)
    return [*found, *fails.problems(graph)]


Rule = Callable[[S, Graph], Iterator[Problem]]


def _rule(kind: type[S]) -> Callable[[Rule[S]], Rule[S]]:
    """Write down a rule that is asked about each step of a kind."""

    def write(function: Rule[S]) -> Rule[S]:
        _OF_STEPS.append((kind, function))
        return function

    return write


def task_names(graph: Graph) -> dict[str, str]:
    """Task -> the step that it runs, or whose branch it runs. Components have these names, so that no two tasks have
    the same, in all DAGs."""
    found: dict[str, str] = {}
    for step in graph.steps:
        name = task_name(step.name)
        names = [name]
        if isinstance(step, ConditionStep):
            names += [f"{name}-{branch}" for branch in ("then", "otherwise") if getattr(step, branch)]
        for each in names:
            found.setdefault(each, step.name)
    return found


def _names(graph: Graph) -> Iterator[Problem]:
    known = task_names(graph)
    reserved = (STEPS, NOTICE) if settings_of(graph.pipeline.deployment).notices else ()
    for step in graph.steps:
        name = task_name(step.name)
        if known[name] != step.name:
            reason = f"there it has the name {name!r}, as a task of step {known[name]!r} has. Give it another one."
            yield Problem(step.name, "name", reason)
        elif name in reserved:
            yield Problem(step.name, "name", f"{name!r} is a task of the notices. Give it another one.")
        elif isinstance(step, ConditionStep):
            for branch in (f"{name}-then", f"{name}-otherwise"):
                if (other := known.get(branch, step.name)) != step.name:
                    reason = f"there its branch has the name {branch!r}, as step {other!r} has. Give it another one."
                    yield Problem(step.name, "name", reason)
    if len(task_name(graph.pipeline.name)) > LONGEST_NAME:
        yield Problem("", "name", f"has more than {LONGEST_NAME} characters. Give a shorter one.")
    for parameter in graph.pipeline.parameters:
        if "--" in parameter.name:
            yield Problem("", f"parameter {parameter.name!r}", "its name holds `--`. Give it another name.")
        if (reason := problem_of(parameter.default)) is not None:
            yield Problem("", f"parameter {parameter.name!r}", f"{reason} Give it another default.")


def _step_settings(graph: Graph) -> Iterator[Problem]:
    settings = settings_of(graph.pipeline.deployment)
    for name in settings.steps:
        field = f"deployment.targets.kubeflow.steps.{name}"
        if name not in graph.by_name:
            yield Problem("", field, f"there is no such step. {did_you_mean(name, graph.by_name)}")
        elif isinstance(graph.by_name[name], ConditionStep | ForEachStep):
            yield Problem("", field, "it has no pod. Give the steps of its branches, or of its body.")
    for where, pod in (("pods", settings.pods), *((f"steps.{name}", pod) for name, pod in settings.steps.items())):
        if CHECKPOINTS in pod.volumes and settings.checkpoint_claim is not None:
            field = f"deployment.targets.kubeflow.{where}.volumes"
            yield Problem("", field, f"checkpoint_claim is mounted at {CHECKPOINTS}. Give another folder.")


def _triggers(pipeline: Pipeline) -> Iterator[Problem]:
    for trigger in pipeline.triggers:
        if not isinstance(trigger, Schedule | GroupTrigger):
            yield Problem(
                "",
                f"trigger {trigger.name!r}",
                f"is AWS's {type(trigger).__name__}. Use a Schedule, RegistryEvent, DataDrift or QualityDrop.",
            )
        elif isinstance(trigger, Schedule):
            try:
                trigger_of(trigger)
            except CannotSayError as error:
                yield Problem("", f"trigger {trigger.name!r}, {error.field}", error.reason)
            for name, value in trigger.parameters.items():
                if (reason := problem_of(value)) is not None:
                    yield Problem("", f"trigger {trigger.name!r}, parameters.{name}", f"{reason} Give another value.")


@_rule(BaseStep)
def _kinds(step: BaseStep, graph: Graph) -> Iterator[Problem]:
    if isinstance(step, TuningStep):
        yield Problem(step.name, "tune", "there is no tuning. Use for_each(..., best=largest(...)) over values.")
    elif isinstance(step, LambdaStep):
        reason = "a Lambda is AWS's. Use a component, whose numbers and texts come back."
        yield Problem(step.name, "call_lambda", reason)
    elif isinstance(step, NativeStep) and step.type != KUBEFLOW_TASK:
        yield Problem(step.name, f"type {step.type}", "a native step is SageMaker's. Use a component or a script.")


@_rule(JobStep)
def _machines(step: JobStep, graph: Graph) -> Iterator[Problem]:
    cluster = step.cluster
    given = {
        "groups": (cluster.groups, "hosts of one training are alike there. Give a count"),
        "alternatives": (cluster.alternatives, "a pod takes what its resources and node labels say"),
        "warm_pool_seconds": (cluster.warm_pool_seconds, "nodes are the cluster's to keep"),
        "efa": (cluster.efa, "adapters are the node's. Say it by resources and the image"),
        "network": (cluster.network, "the namespace's network policy says it (infra/kubeflow)"),
    }
    for name, (value, instead) in given.items():
        if value:
            yield Problem(step.name, f"cluster.{name}", f"is SageMaker's; {instead}.")
    if isinstance(cluster.count, ParameterRef):
        yield Problem(step.name, "cluster.count", "is a parameter; the number of pods is compiled. Give a number.")
    elif cluster.count > 1 and not isinstance(step, TrainingStep):
        yield Problem(step.name, "cluster.count", f"is {cluster.count}; a task is one pod. Give 1.")
    if isinstance(cluster.spot, ParameterRef):
        yield Problem(step.name, "cluster.spot", "is a parameter. Give a Spot, or None.")


@_rule(JobStep)
def _images(step: JobStep, graph: Graph) -> Iterator[Problem]:
    if step.image and (problem := image_problem(step.image)):
        yield Problem(step.name, "image", f"{step.image!r:.80} is no name of an image: {problem}. Give {ALLOWED}.")
    image = step.image or settings_of(graph.pipeline.deployment).image
    if runs_on_spark(step) and image_name(image) in _WITHOUT_JAVA:
        yield Problem(
            step.name,
            "image",
            f"{image} has no Java, and its program runs on Spark, or may by a parameter. Give the name under which you "
            "have pushed what infra/kubeflow/images/spark.Dockerfile builds, or engine=polars where the step is "
            "transform_data.",
        )


@_rule(TrainingStep)
def _spot(step: TrainingStep, graph: Graph) -> Iterator[Problem]:
    if isinstance(step.cluster.spot, Spot) and not step.checkpoint:
        yield Problem(step.name, "cluster.spot", "its program keeps no checkpoints, so an eviction loses all of it.")


@_rule(TrainingStep)
def _options(step: TrainingStep, graph: Graph) -> Iterator[Problem]:
    usual = dict(TrainingOptions())
    if names := [name for name, value in step.options if value != usual[name]]:
        instead = "; the health rules run in the training itself" if names[0] == "debugger" else ""
        reason = f"is an option of SageMaker's training jobs. Leave it out there{instead}."
        yield Problem(step.name, f"options.{names[0]}", reason)


@_rule(JobStep)
def _inputs(step: JobStep, graph: Graph) -> Iterator[Problem]:
    for name, value in step.inputs.items():
        if isinstance(value, str) and value.partition("://")[0] in ("fsx", "efs"):
            yield Problem(step.name, f"inputs.{name}", "is a file system of AWS's. Give a path, or an s3:// URI.")
        elif isinstance(value, str) and "://" in value and not value.startswith("s3://"):
            scheme = value.partition("://")[0]
            yield Problem(step.name, f"inputs.{name}", f"{scheme}:// is not taken there. Give a path, or an s3:// URI.")
        elif isinstance(value, Reference) and not isinstance(
            value, OutputRef | ParameterRef | PropertyRef | IterationRef
        ):
            yield Problem(
                step.name,
                f"inputs.{name}",
                f"{value.described()} cannot be an input's place there. Give an output of a step, a parameter of the "
                "pipeline, or a URI.",
            )


@_rule(BaseStep)
def _references(step: BaseStep, graph: Graph) -> Iterator[Problem]:
    for reference in graph.references[step.name]:
        if isinstance(reference, ExecutionRef) and reference.field not in _EXECUTION:
            yield Problem(step.name, reference.field, f"is SageMaker's. There are {' and '.join(_EXECUTION)}.")
        elif isinstance(reference, PropertyRef) and getattr(graph.by_name[reference.step], "type", "") != KUBEFLOW_TASK:
            yield Problem(
                step.name,
                f"property {reference.path!r}",
                "is of SageMaker's description of a step. Use an output or a metric.",
            )
        elif isinstance(reference, LambdaOutputRef):
            yield Problem(step.name, reference.name, "comes from a Lambda, which there is not.")
        elif isinstance(reference, CountRef):
            yield Problem(step.name, "count", "the platform does not count iterations. Count them in a step.")
        elif isinstance(reference, IterationRef) and not isinstance(reference.of, OutputRef | LoggedRef):
            yield Problem(step.name, reference.described(), "is SageMaker's. Use an output, or a logged metric.")


@_rule(ConditionStep)
def _conditions(step: ConditionStep, graph: Graph) -> Iterator[Problem]:
    for reference in references_in(step.condition):
        value = reference.of if isinstance(reference, IterationRef) else reference
        if not isinstance(value, ParameterRef | MetricRef | LoggedRef):
            reason = "cannot be compared there. Compare a parameter of the pipeline, a metric or a logged value."
            yield Problem(step.name, "condition", f"{reference.described()} {reason}")
    for number in integers_in(step.condition):
        if (reason := problem_of(number)) is not None:
            yield Problem(step.name, "condition", f"{reason} Compare with another number.")


@_rule(BaseStep)
def _dependencies(step: BaseStep, graph: Graph) -> Iterator[Problem]:
    for dependency in step.depends_on:
        if dependency.trigger in ("Failed", "Stopped"):
            yield Problem(
                step.name,
                f"after {dependency.step!r}",
                f"when it {dependency.trigger.lower()} cannot be said there. Use trigger='Any', and let the step look.",
            )
        elif dependency.trigger == "Any":
            # The platform runs such a task as the end of the one task that it waits for, outside of the DAG.
            if others := sorted(graph.needs[step.name] - {dependency.step}):
                reason = (
                    f"there a step that runs however that ended waits for it alone, and not for {others[0]!r}, too."
                )
                yield Problem(step.name, f"after {dependency.step!r}", reason)
            for other in graph.steps:
                if step.name in graph.needs[other.name]:
                    reason = f"there no step can wait for one that runs however another ended; {other.name!r} does."
                    yield Problem(step.name, f"after {dependency.step!r}", reason)


@_rule(JobStep)
def _outputs(step: JobStep, graph: Graph) -> Iterator[Problem]:
    for name in step.output_names():
        keys = [name]
        if step.name in graph.loops:  # which hands it on by this name
            keys.append(f"{task_name(step.name)}-{name}")
        for key in keys:
            if _LOG.fullmatch(key):
                reason = f"{key!r} is the log that Kubeflow Pipelines adds to each task. Give it another name."
                yield Problem(step.name, f"outputs.{name}", reason)


@_rule(TrainingStep)
def _nodes(step: TrainingStep, graph: Graph) -> Iterator[Problem]:
    settings = settings_of(graph.pipeline.deployment)
    if not num_nodes(step, settings):
        return
    if (count := len(variables(settings, step)) + 1) > _MOST_VARIABLES:
        reason = f"a TrainJob has at most {_MOST_VARIABLES} variables, and there are {count} with those of Drivetrain."
        yield Problem(step.name, "deployment.targets.kubeflow.pods.secrets", f"{reason} Name fewer.")
    for name in sorted(RESERVED_VARIABLES.intersection(step.environment)):
        yield Problem(step.name, f"environment.{name}", "the Trainer sets it itself. Leave it out.")


@_rule(BaseStep)
def _retries(step: BaseStep, graph: Graph) -> Iterator[Problem]:
    if isinstance(step, JobStep | RegisterStep):
        for rate in {policy.backoff_rate: policy for policy in step.retry}:
            if rate < 1 or not rate.is_integer():
                reason = f"a backoff_rate of {rate:g} ends the run there at the first retry. Give 1, 2, or more."
                yield Problem(step.name, "retry", reason)


@_rule(ForEachStep)
def _loops(step: ForEachStep, graph: Graph) -> Iterator[Problem]:
    if isinstance(step.items, Reference) or any(isinstance(item, Reference) for item in _items(step)):
        yield Problem(step.name, "items", "holds a reference. Give a list of literals: items are compiled there.")
    elif reason := next(filter(None, map(problem_of, _items(step))), None):
        yield Problem(step.name, "items", f"{reason} Give other items.")
    if step.selector is not None and not isinstance(step.selector.value, LoggedRef):
        yield Problem(step.name, "best", f"{step.selector.value.described()} is SageMaker's. Use step.logged(...).")


def _items(step: ForEachStep) -> tuple[Any, ...]:
    return step.items if isinstance(step.items, tuple) else ()


@_rule(TrainingStep)
def _checkpoints(step: TrainingStep, graph: Graph) -> Iterator[Problem]:
    if step.checkpoint is None:
        return
    claim = settings_of(graph.pipeline.deployment).checkpoint_claim
    if isinstance(step.checkpoint.uri, Reference):
        yield Problem(step.name, "checkpoint.uri", "is a reference. Give a URI, or none for the pipeline's own place.")
    if step.program.target != TRAIN and claim is None:
        yield Problem(
            step.name,
            "checkpoint",
            "its program wants a folder that is kept. Set deployment.targets.kubeflow.checkpoint_claim to the name of "
            "a PersistentVolumeClaim.",
        )


@_rule(TrainingStep)
def _libraries_of_a_vendor(step: TrainingStep, graph: Graph) -> Iterator[Problem]:
    if needed := library_of(step, graph):
        yield Problem(
            step.name,
            needed.field,
            f"{needed.value!r} needs a library that only AWS's images hold, for AWS's machines. Give {needed.instead}.",
        )


@_rule(TrainingStep)
def _scripts(step: TrainingStep, graph: Graph) -> Iterator[Problem]:
    if step.program.kind == "script":
        yield Problem(
            step.name, "program", "a script as a training job is SageMaker's. Use the component train_script."
        )
