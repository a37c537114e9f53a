"""Rules about what starts a pipeline by itself: clocks that can be read, values that fit, no loops.

Cron, rate and event paths are read here as they will be when the triggers are deployed; what only the place decides
(names, lengths) is looked at then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import object_in
from drivetrain.catalog import quotas
from drivetrain.rules import RuleBook
from drivetrain.rules.written_places import written_places
from drivetrain.spec.deployment import roots_of
from drivetrain.spec.model_groups import model_group, synced_group
from drivetrain.spec.pipeline import (
    DataDrift,
    EventTrigger,
    Graph,
    PipelineFinished,
    QualityDrop,
    RegistryEvent,
    Schedule,
    Upload,
)
from drivetrain.spec.resources import CHECK_SERVED, REGISTER_MODEL
from drivetrain.spec.steps import JobStep, NativeStep, Step
from drivetrain.spec.values import TYPE_OF_SCALAR, ExecutionRef, ParameterRef, Scalar
from drivetrain.triggers.event_values import is_path, read_path
from drivetrain.triggers.timing import clock, rate

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Parameter

rule = RuleBook()

# What UpdatedModelPackageFields may name: what a version is made with and described by, and what changes it.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeModelPackage.html (and API_UpdateModelPackage)
PACKAGE_FIELDS = frozenset(
    (
        *("AdditionalInferenceSpecifications", "AdditionalInferenceSpecificationsToAdd", "ApprovalDescription"),
        *("CertifyForMarketplace", "CreatedBy", "CreationTime", "CustomerMetadataProperties"),
        *("CustomerMetadataPropertiesToRemove", "Domain", "DriftCheckBaselines", "InferenceSpecification"),
        *("LastModifiedBy", "LastModifiedTime", "ManagedStorageType", "MetadataProperties", "ModelApprovalStatus"),
        *("ModelCard", "ModelLifeCycle", "ModelMetrics", "ModelPackageArn", "ModelPackageDescription"),
        *("ModelPackageGroupName", "ModelPackageName", "ModelPackageRegistrationType", "ModelPackageStatus"),
        *("ModelPackageStatusDetails", "ModelPackageVersion", "SamplePayloadUrl", "SecurityConfig"),
        *("SkipModelValidation", "SourceAlgorithmSpecification", "SourceUri", "Task", "ValidationSpecification"),
    )
)
# An event's own fields, written as a path almost is. https://docs.aws.amazon.com/eventbridge/latest/ref/overiew-event-structure.html
_ALMOST_PATHS = frozenset(
    f"${name}"
    for name in ("account", "detail", "detail-type", "id", "region", "resources", "source", "time", "version")
)
MAX_DAYS = 30
"""The longest period of a limit: executions are looked at that far back."""


@rule
def trigger_names_are_unique(graph: Graph) -> Iterator[str]:
    for name, count in Counter(trigger.name for trigger in graph.pipeline.triggers).items():
        if count > 1:
            yield f"{count} triggers are called {name!r}."


@rule
def triggers_give_declared_parameters(graph: Graph) -> Iterator[str]:
    declared = graph.parameters
    for trigger in graph.pipeline.triggers:
        for name, value in trigger.parameters.items():
            if name not in declared:
                yield f"trigger {trigger.name!r} gives parameter {name!r}. {did_you_mean(name, declared)}"
            elif problem := _misfit(declared[name], value, from_event=isinstance(trigger, EventTrigger)):
                yield f"trigger {trigger.name!r}, parameter {name!r}: {problem}"


@rule
def triggers_give_what_a_start_needs(graph: Graph) -> Iterator[str]:
    for trigger in graph.pipeline.triggers:
        for parameter in graph.pipeline.parameters:
            if parameter.default is None and parameter.name not in trigger.parameters:
                yield (
                    f"trigger {trigger.name!r} gives no value for parameter {parameter.name!r}, which has no default. "
                    f"Add parameters={{{parameter.name!r}: ...}}, or a default."
                )


@rule.each(Schedule)
def schedules_can_be_read(trigger: Schedule, graph: Graph) -> Iterator[str]:
    given = [name for name in ("cron", "rate", "at") if getattr(trigger, name) is not None]
    if len(given) != 1:
        yield (
            f"trigger {trigger.name!r} has {' and '.join(given) or 'no clock'}; give one of cron='0 2 * * ? *', "
            "rate='1 day' and at='2026-03-01T02:00:00'."
        )
        return
    bounds = [name for name in ("start", "end") if getattr(trigger, name) is not None]
    if trigger.at is not None and bounds:
        yield (
            f"trigger {trigger.name!r} has {' and '.join(bounds)} beside at, which EventBridge Scheduler ignores: "
            "it would run all the same. Leave out what does not hold."
        )
        return

    try:
        read = clock(trigger)
    except UserError as error:
        yield f"trigger {trigger.name!r}: {error}"
        return
    if read.start is not None and read.end is not None and read.start >= read.end:
        yield f"trigger {trigger.name!r} ends at {trigger.end}, which is not after its start at {trigger.start}."


@rule.each(EventTrigger)
def limits_of_triggers_can_be_read(trigger: EventTrigger, graph: Graph) -> Iterator[str]:
    from datetime import timedelta

    for field, text in (("once_per", trigger.once_per), ("limit.every", trigger.limit and trigger.limit.every)):
        if text is None:
            continue
        try:
            period = rate(text).period
        except UserError as error:
            yield f"trigger {trigger.name!r}, {field}: {error}"
            continue
        if period > timedelta(days=MAX_DAYS):
            yield f"trigger {trigger.name!r}, {field}: {text} is longer than {MAX_DAYS} days."


@rule.each(EventTrigger)
def triggers_do_not_loop(trigger: EventTrigger, graph: Graph) -> Iterator[str]:
    pipeline = graph.pipeline
    roots = roots_of(pipeline.deployment)
    if not trigger.loop_guard:
        return
    if isinstance(trigger, PipelineFinished) and trigger.pipeline.lower() == pipeline.name.lower():
        yield (
            f"trigger {trigger.name!r} starts this pipeline when it has ended, without end. If that is meant, say "
            "loop_guard=False and give a limit."
        )
    if not isinstance(trigger, Upload):
        return
    watched = f"s3://{trigger.bucket}/{trigger.prefix}"
    for own in (f"{root}/" for root in roots):
        if own.startswith(watched) or watched.startswith(own):
            yield (
                f"trigger {trigger.name!r} watches {watched}, where the pipeline itself writes ({own}): each run "
                "would start the next. Give another prefix."
            )


@rule.each(Upload)
def uploads_are_not_those_of_the_steps(trigger: Upload, graph: Graph) -> Iterator[str]:
    """Native steps and checkpoints may write anywhere, also where the pipeline waits for others' files."""
    values = _started_with(trigger, graph.pipeline.parameters)
    for step in graph.steps if trigger.loop_guard else ():
        place = next((p for p in written_places(step, values) if p.meets(trigger.bucket, trigger.prefix)), None)
        if place is not None:
            yield (
                f"trigger {trigger.name!r} watches s3://{trigger.bucket}/{trigger.prefix}, where step {step.name!r} "
                f"writes ({place.uri}): each run would start the next. Give another prefix; or, if that is meant, say "
                "loop_guard=False and give a limit."
            )


@rule.each(EventTrigger)
def findings_are_not_those_of_the_pipeline_itself(trigger: EventTrigger, graph: Graph) -> Iterator[str]:
    """A run that looks at served data may find what starts the next run."""
    if not isinstance(trigger, DataDrift | QualityDrop) or not trigger.loop_guard:
        return
    for step in graph.steps:
        if (
            isinstance(step, JobStep)
            and step.program.target == CHECK_SERVED
            and _may_be(step.parameters.get("group"), trigger.group, graph.parameters)
        ):
            yield (
                f"step {step.name!r} looks at the served data of {trigger.group!r}, and trigger {trigger.name!r} waits "
                "for what it finds: a run could start the next. Look in a pipeline of its own; or, if that is meant, "
                "say loop_guard=False and give a limit."
            )


@rule
def the_loop_guard_knows_who_registered(graph: Graph) -> Iterator[str]:
    """A package without the execution that made it starts a trigger on its own group, again and again."""
    for step in graph.steps:
        yield from _synced_registrations(graph, step)
        found = _unnamed_registration(step)
        if found is None:
            continue
        group, remedy = found
        for trigger in graph.pipeline.triggers:
            if (
                isinstance(trigger, RegistryEvent)
                and trigger.loop_guard
                and _may_be(group, trigger.group, graph.parameters)
            ):
                yield (
                    f"step {step.name!r} may register models of group {trigger.group!r}, which trigger "
                    f"{trigger.name!r} watches, without saying that this pipeline made them: each run could start the "
                    f"next. {remedy}; or, if that is meant, say loop_guard=False and give a limit."
                )


@rule
def registry_triggers_watch_a_model_once(graph: Graph) -> Iterator[str]:
    """MLflow's sync registers each version a second time, in a group of its own."""
    watching = [trigger for trigger in graph.pipeline.triggers if isinstance(trigger, RegistryEvent)]
    for one, other in permutations(watching, 2):
        alike = None in (one.status, other.status) or one.status == other.status
        if synced_group(one.group) == other.group and alike:
            yield (
                f"triggers {one.name!r} and {other.name!r} watch {one.group!r} and {other.group!r}: MLflow's sync "
                "registers a version of the second again in the first, so one model would start the pipeline twice. "
                "Keep one of them."
            )


@rule.each(RegistryEvent)
def registry_triggers_wait_for_fields_that_there_are(trigger: RegistryEvent, graph: Graph) -> Iterator[str]:
    """A misspelt field never changes, so the trigger would never fire, and nothing would say so."""
    for field in trigger.changed or ():
        if field not in PACKAGE_FIELDS:
            yield f"trigger {trigger.name!r} waits for a change of {field!r}. {did_you_mean(field, PACKAGE_FIELDS)}"


@rule.each(RegistryEvent)
def registry_triggers_say_what_changed(trigger: RegistryEvent, graph: Graph) -> Iterator[str]:
    if not trigger.changes() and trigger.status is None and trigger.stage is None and trigger.stage_status is None:
        yield (
            f"trigger {trigger.name!r} would fire for every edit of a package of {trigger.group!r}. Give a status, "
            "a stage, or changed=('ModelApprovalStatus',)."
        )
    staged = trigger.stage is not None or trigger.stage_status is not None
    if staged and trigger.changed and "ModelLifeCycle" not in trigger.changed and trigger.status is None:
        yield (
            f"trigger {trigger.name!r} is about the stage, but waits for a change of {', '.join(trigger.changed)}. "
            "Add 'ModelLifeCycle', or leave changed= out."
        )


def _synced_registrations(graph: Graph, step: Step) -> Iterator[str]:
    """Versions that a step registers in MLflow, whose sync brings them to a group that a trigger watches."""
    if not isinstance(step, JobStep) or step.program.target != REGISTER_MODEL:
        return
    registry, name = step.parameters.get("registry"), step.parameters.get("group")
    if not (isinstance(registry, str) and registry.startswith("mlflow:")):
        return
    for trigger in graph.pipeline.triggers:
        if isinstance(trigger, RegistryEvent) and trigger.loop_guard and synced_group(trigger.group) == name:
            yield (
                f"step {step.name!r} registers models of {name!r} in MLflow, whose sync registers them again in group "
                f"{trigger.group!r}, which trigger {trigger.name!r} watches: each run could start the next, since the "
                "sync names no execution. Let another pipeline watch that group; or, if that is meant, say "
                "loop_guard=False and give a limit."
            )


def _started_with(trigger: EventTrigger, parameters: Iterable[Parameter]) -> dict[str, Scalar]:
    """The parameters that a trigger starts the pipeline with, but for those that only the event says."""
    given = {p.name: trigger.parameters.get(p.name, p.default) for p in parameters}
    return {name: value for name, value in given.items() if value is not None and not is_path(str(value))}


def _unnamed_registration(step: Step) -> tuple[Any, str] | None:
    """The group that a step registers in without naming its execution, and what to write; None for other steps.

    A RegisterStep names it by itself.
    """
    if isinstance(step, JobStep) and step.program.target == REGISTER_MODEL:
        # Other registries than SageMaker's and this machine's send no events.
        registry = step.parameters.get("registry", "auto")
        kind = registry.partition(":")[0] if isinstance(registry, str) else "auto"
        if kind not in ("auto", "sagemaker", "local") or step.parameters.get("execution") == ExecutionRef(
            field="PipelineExecutionArn"
        ):
            return None
        return step.parameters.get("group"), 'Add execution=execution("PipelineExecutionArn") to the step'
    if isinstance(step, NativeStep) and step.type == "RegisterModel":
        arguments = object_in(step.fields, "Arguments")
        guard = ExecutionRef(field="PipelineExecutionArn")
        if object_in(arguments, "MetadataProperties").get("GeneratedBy") in (
            guard,
            {"Get": f"Execution.{guard.field}"},
        ):
            return None
        remedy = 'Add "MetadataProperties": {"GeneratedBy": {"Get": "Execution.PipelineExecutionArn"}} to its Arguments'
        return arguments.get("ModelPackageGroupName"), remedy
    return None


def _may_be(given: Any, group: str, declared: Mapping[str, Parameter]) -> bool:
    """Return True if a step's group may be this one: what only an execution knows may be any."""
    if isinstance(given, ParameterRef) and given.name in declared and declared[given.name].choices:
        return any(model_group(str(choice)).name == group for choice in declared[given.name].choices)
    return model_group(given).name == group if isinstance(given, str) else True


def _misfit(parameter: Parameter, value: bool | int | float | str, *, from_event: bool) -> str | None:
    """The reason that a value does not fit the parameter."""
    if isinstance(value, str) and is_path(value):
        if not from_event:
            return f"{value!r} is taken from an event, and a schedule has none. Give the value itself."
        try:
            read_path(value)
        except UserError as error:
            return str(error)
        return None
    given = TYPE_OF_SCALAR[type(value)]
    if given != parameter.type and not (given == "Integer" and parameter.type == "Float"):
        return f"{value!r} is {given}; the parameter is {parameter.type}."
    if parameter.choices and value not in parameter.choices:
        return f"{value!r}. {did_you_mean(str(value), map(str, parameter.choices))}"
    if isinstance(value, str) and len(value) > quotas.MAX_PARAMETER_VALUE_CHARACTERS:
        return f"{len(value):,} characters; at most {quotas.MAX_PARAMETER_VALUE_CHARACTERS:,}."
    if from_event and isinstance(value, str) and value.partition(".")[0] in _ALMOST_PATHS:
        return f"{value!r} is that very text. What is taken from the event is written '$.{value[1:]}'."
    if value == "" and not from_event:
        return "the empty text cannot be sent by the service. Leave it out and give the parameter this default."
    return None
