"""The pipeline: the one language between an author and a target; what starts it by itself, declared with it, so that it
is reviewed with it; and the DAG inside it: which step needs which, and which steps stand in which branch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from drivetrain.base.json_text import object_in, objects_in
from drivetrain.catalog import quotas
from drivetrain.spec import Frozen, FrozenDict, FrozenMap, Lazily, Matching
from drivetrain.spec.deployment import Deployment
from drivetrain.spec.resources import CALIBRATE, CachePolicy
from drivetrain.spec.steps import ConditionStep, ForEachStep, JobStep, NativeStep, Step, flatten
from drivetrain.spec.values import (
    IterationRef,
    OutputRef,
    ParameterRef,
    Pending,
    PropertyRef,
    Scalar,
    ValueType,
    references_in,
)

# Fields of a step that hold other steps, and what is said of them.
_NESTED = ("then", "otherwise", "body", "selector")


class Parameter(Pending):
    """A value given when the pipeline is started; it can be used wherever a literal can."""

    name: str
    type: ValueType
    default: Scalar | None = None
    choices: tuple[Scalar, ...] = ()

    @classmethod
    def string(cls, name: str, default: str | None = None, choices: tuple[str, ...] = ()) -> Parameter:
        return cls(name=name, type="String", default=default, choices=choices)

    @classmethod
    def integer(cls, name: str, default: int | None = None, choices: tuple[int, ...] = ()) -> Parameter:
        return cls(name=name, type="Integer", default=default, choices=choices)

    @classmethod
    def number(cls, name: str, default: float | None = None, choices: tuple[float, ...] = ()) -> Parameter:
        return cls(name=name, type="Float", default=default, choices=choices)

    @classmethod
    def boolean(cls, name: str, default: bool | None = None) -> Parameter:
        return cls(name=name, type="Boolean", default=default)

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The values that are known: the default, then the choices. 1, 1.0 and True are three values."""
        default = () if self.default is None else (self.default,)
        return tuple({(type(value), value): value for value in (*default, *self.choices)}.values())

    def ref(self) -> ParameterRef:
        """The reference that stands for the value in steps and conditions."""
        return ParameterRef(name=self.name, type=self.type)

    def described(self) -> str:
        return self.ref().described()


_NAME = r"[A-Za-z0-9](-*[A-Za-z0-9]){0,62}"
Name = Annotated[str, Matching(_NAME, "letters, digits and '-' between them, at most 63: nightly")]


class Limit(Frozen):
    """At most so many starts in any period: `Limit(starts=2, every="1 day")`. Events beyond it are dropped."""

    starts: Annotated[int, Field(ge=1, le=1_000)] = 1
    every: str = "1 day"
    """A count and a unit: 30 minutes, 6 hours, 7 days; at most 30 days."""


class _Trigger(Frozen):
    name: Name
    enabled: bool = True
    parameters: FrozenMap[Scalar] = Field(default_factory=FrozenDict)
    """Values for the pipeline's parameters; text that starts with `$.` is taken from the event."""

    dead_letter: bool = True
    """Keep events that could not be delivered in the dead-letter queue, if the deployment has one."""


class Schedule(_Trigger):
    """By the clock: one of `cron` (AWS's six fields, minutes first, year last), `rate` (`1 day`) and `at` (once)."""

    kind: Literal["schedule"] = "schedule"
    cron: str | None = None
    rate: str | None = None
    at: str | None = None
    """A single time by the clock of `timezone`: 2026-03-01T02:00:00."""

    timezone: str = "UTC"
    """Such as Europe/Berlin. A cron time that clocks skip is skipped; one that comes twice runs once."""

    start: str | None = None
    """Not before: 2026-03-01, 2026-03-01T02:00:00 (in `timezone`), 2026-03-01T02:00:00Z. With `cron` and `rate` only:
    the service ignores it for a single time."""

    end: str | None = None
    """Not after; likewise."""

    flexible_minutes: Annotated[int, Field(ge=1, le=1440)] | None = None
    """Some time within so many minutes after the time, for schedules that should not all start at once."""


class EventTrigger(_Trigger):
    """The common fields of triggers by events."""

    loop_guard: bool = True
    """A model that this pipeline itself registered does not start it; nor can its own end or its own files."""

    limit: Limit | None = None
    once_per: str | None = None
    """The deduplication window: events within the same slot of so much time (`10 minutes`) count as one, and start it
    with the values of the first. Without it, one and the same event starts it once however often it is delivered."""


class GroupTrigger(EventTrigger):
    """Something happened to a model group. A registry that sends no events can be polled for it."""

    group: Annotated[str, Matching(_NAME, "letters, digits and '-' between them, at most 63: churn")]


class RegistryEvent(GroupTrigger):
    """A model package of a group changed: was approved, moved to a stage, ..."""

    kind: Literal["registry"] = "registry"
    group: Annotated[
        str,
        Matching(
            rf"{_NAME}|arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{{12}}:model-package-group/{_NAME}",
            "letters, digits and '-' between them, at most 63, such as churn; or the ARN of a group of another account",
        ),
    ]
    """Its name, or the ARN of a group in a central registry; that account sends its events to the bus of this one."""
    status: Literal["Approved", "Rejected", "PendingManualApproval"] | None = "Approved"
    stage: Annotated[str, Field(min_length=1)] | None = None
    stage_status: Annotated[str, Field(min_length=1)] | None = None
    changed: tuple[str, ...] | None = None
    """Only when one of these fields is what changed; without it every edit of a package would fire. By default those
    that `status` and `stage` are about; `()` for any, and for packages that are new."""

    def changes(self) -> tuple[str, ...]:
        """`changed`, or the fields that status and stage are about."""
        if self.changed is not None:
            return self.changed
        staged = self.stage is not None or self.stage_status is not None
        approved = ("ModelApprovalStatus",) if self.status is not None else ()
        return (*approved, *(("ModelLifeCycle",) if staged else ()))


class DataDrift(GroupTrigger):
    """The data that the group's approved version serves drifted: check_served found it."""

    kind: Literal["drift"] = "drift"
    columns: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Only when one of these drifted; any unless given."""


class QualityDrop(GroupTrigger):
    """The group's approved version got worse on the data that it serves: check_served found it."""

    kind: Literal["quality"] = "quality"
    metric: Annotated[str, Field(min_length=1)] | None = None
    """Only when this metric dropped; any unless given."""


class Upload(EventTrigger):
    """An object arrived under a prefix. The bucket must send its events to EventBridge."""

    kind: Literal["upload"] = "upload"
    bucket: Annotated[
        str, Matching(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "the name of a bucket alone, such as team-data")
    ]
    prefix: str = ""
    suffix: str = ""
    account: Annotated[str, Matching(r"[0-9]{12}", "the twelve digits of an account")] | None = None
    """The account of the bucket, if it is not the pipeline's."""


class PipelineFinished(EventTrigger):
    """Another pipeline ended."""

    kind: Literal["pipeline"] = "pipeline"
    pipeline: Annotated[
        str,
        Matching(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,255}", "a pipeline's name: letters, digits and '-' between them"),
    ]
    outcome: Literal["Succeeded", "CompletedWithFailures", "Failed", "Stopped"] = "Succeeded"
    """CompletedWithFailures is no success: a step failed, and one with a Trigger took care of it."""


class Alarm(EventTrigger):
    """A CloudWatch alarm went off, for example one on errors of an endpoint."""

    kind: Literal["alarm"] = "alarm"
    alarm: Annotated[
        str,
        Matching(
            r"(?!arn:)[^\x00]{1,255}|arn:aws[a-z-]*:cloudwatch:[a-z0-9-]+:[0-9]{12}:alarm:[^\x00:]{1,255}",
            "an alarm's name of at most 255 characters, or the ARN of one of another account",
        ),
    ]


Trigger = Annotated[
    Schedule | RegistryEvent | DataDrift | QualityDrop | Upload | PipelineFinished | Alarm, Lazily("kind")
]


class Pipeline(Frozen):
    """Steps that compose into a DAG; references between them are its edges. Plain data: authors build one that is
    checked (drivetrain.authoring)."""

    name: str
    steps: tuple[Step, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    display_name: Annotated[str, Field(max_length=quotas.MAX_DISPLAY_NAME_CHARACTERS)] | None = None
    description: Annotated[str, Field(max_length=quotas.MAX_DESCRIPTION_CHARACTERS)] | None = None
    deployment: Deployment = Deployment()
    cache: CachePolicy = CachePolicy()
    tags: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Tags of the pipeline itself, an argument of the create call. Jobs get those of their step, and of their
    target's block."""
    triggers: tuple[Trigger, ...] = ()
    experiment: FrozenMap[Any] | None = Field(default_factory=FrozenDict)
    """SageMaker's PipelineExperimentConfig; None leaves it out, and an empty one is the deployment's."""
    metadata: FrozenMap[Any] = Field(default_factory=FrozenDict)
    """The Metadata of the definition, as SageMaker keeps it."""
    other: FrozenMap[Any] = Field(default_factory=FrozenDict)
    """Fields of SageMaker's definition beside its steps and parameters, as JSON; None leaves one out."""
    max_parallel_steps: Annotated[int, Field(ge=1)] | None = None
    """An argument of the start call, not of the definition."""


_GET_STEP = re.compile(r"^Steps\.([^.\[]+)")


class Graph:
    """A read-only view of a pipeline's steps and edges, computed once."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.steps: list[Step] = flatten(pipeline.steps)

    @cached_property
    def by_name(self) -> dict[str, Step]:
        return {step.name: step for step in self.steps}

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        return {parameter.name: parameter for parameter in self.pipeline.parameters}

    @cached_property
    def references(self) -> dict[str, list[Any]]:
        """Step name -> the references in its own fields (not in its branches)."""
        return {
            step.name: references_in(tuple(value for name, value in step.__dict__.items() if name not in _NESTED))
            for step in self.steps
        }

    @cached_property
    def needs(self) -> dict[str, set[str]]:
        """Step name -> names of the steps it waits for, by reference or by depends_on."""
        native = [step for step in self.steps if isinstance(step, NativeStep)]
        inside = {name: step.name for step in native for name in inner_steps(step.fields)}
        needed: dict[str, set[str]] = {
            step.name: {ref.step for ref in self.references[step.name] if hasattr(ref, "step")}
            | {dependency.step for dependency in step.depends_on}
            | (set(steps_got(step.fields)) if isinstance(step, NativeStep) else set())
            | (self._body_needs(step) if isinstance(step, ForEachStep) else set())
            for step in self.steps
        }
        return {of: {inside.get(one, one) for one in names if inside.get(one) != of} for of, names in needed.items()}

    def _body_needs(self, loop: ForEachStep) -> set[str]:
        """The steps outside of a loop that its body needs."""
        needed = {dependency.step for step in loop.body for dependency in step.depends_on}
        for step in loop.body:
            needed |= {ref.step for ref in self.references[step.name] if hasattr(ref, "step")}
        return needed - {step.name for step in loop.body}

    @cached_property
    def branch(self) -> dict[str, tuple[str, ...]]:
        """Step name -> the branches and bodies it stands in, from the outside in, as `condition:then` or
        `for_each:body`."""
        found: dict[str, tuple[str, ...]] = {}

        def visit(steps: Iterable[Step], path: tuple[str, ...]) -> None:
            for step in steps:
                found[step.name] = path
                if isinstance(step, ConditionStep):
                    visit(step.then, (*path, f"{step.name}:then"))
                    visit(step.otherwise, (*path, f"{step.name}:otherwise"))
                elif isinstance(step, ForEachStep):
                    visit(step.body, (*path, f"{step.name}:body"))

        visit(self.pipeline.steps, ())
        return found

    @cached_property
    def loops(self) -> dict[str, ForEachStep]:
        """Step of a body -> its for_each."""
        return {inner.name: step for step in self.steps if isinstance(step, ForEachStep) for inner in step.body}

    def producer(self, value: Any) -> JobStep | None:
        """The job whose output or property a value is, also in an iteration; None where it comes from elsewhere."""
        made = value.of if isinstance(value, IterationRef) else value
        step = self.by_name.get(made.step) if isinstance(made, OutputRef | PropertyRef) else None
        return step if isinstance(step, JobStep) else None

    def maker(self, value: Any) -> JobStep | None:
        """The job that made a model, before a calibration of it; None where it comes from elsewhere."""
        made = self.producer(value)
        while made is not None and made.program.target == CALIBRATE:
            made = self.producer(made.inputs.get("trained"))
        return made

    def instance_types(self, step: JobStep) -> tuple[str, ...]:
        """All on which a step may run, the cluster's own first; of a parameter its default, then its choices."""
        cluster = step.cluster
        own: list[Any] = [cluster.machine]
        if isinstance(cluster.machine, ParameterRef):
            declared = self.parameters.get(cluster.machine.name)
            own = [] if declared is None else list(declared.values)
        others = [each.instance_type for each in (*cluster.groups, *cluster.alternatives)]
        return tuple(dict.fromkeys(each for each in (*own, *others) if isinstance(each, str)))

    def waits_for(self, name: str) -> set[str]:
        """The steps that must end before a step starts: its own needs, and the conditions that it stands under."""
        return self.needs[name] | {entry.rpartition(":")[0] for entry in self.branch[name]}


def replaced(steps: Iterable[Step], change: Callable[[Step], Iterable[Step]]) -> tuple[Step, ...]:
    """The steps with each one, in branches and bodies too, replaced by what `change` gives for it. Conditions and loops
    stay, around what stands in them."""
    found: list[Step] = []
    for step in steps:
        names = ("then", "otherwise") if isinstance(step, ConditionStep) else ("body",)
        if isinstance(step, ConditionStep | ForEachStep):
            found.append(step.model_copy(update={name: replaced(getattr(step, name), change) for name in names}))
        else:
            found += change(step)
    return tuple(found)


def steps_got(node: Any) -> list[str]:
    """Names of the steps that raw JSON refers to by `{"Get": "Steps.X..."}`."""
    if isinstance(node, Mapping):
        got = node.get("Get")  # type: ignore[reportUnknownMemberType]
        if isinstance(got, str) and (found := _GET_STEP.match(got)):
            return [found.group(1)]
        return [name for item in node.values() for name in steps_got(item)]  # type: ignore[reportUnknownVariableType]
    if isinstance(node, list | tuple):
        return [name for item in node for name in steps_got(item)]  # type: ignore[reportUnknownVariableType]
    return []


def inner_steps(fields: Mapping[str, Any]) -> list[str]:
    """Names of the steps in the branches or the body of a raw one."""
    arguments = object_in(fields, "Arguments")
    steps = [each for key in ("IfSteps", "ElseSteps", "ForEachBody") for each in objects_in(arguments, key)]
    return [name for step in steps for name in (str(step.get("Name")), *inner_steps(step))]


def find_cycle(needs: Mapping[str, Iterable[str]]) -> list[str] | None:
    """The names along one cycle (first = last), or None. Iterative: a DAG may have thousands of steps."""
    done: set[str] = set()
    for start in needs:
        path: list[str] = []
        on_path: set[str] = set()
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                path.pop()
                on_path.discard(name)
                done.add(name)
                continue
            if name in on_path:
                return [*path[path.index(name) :], name]
            if name in done or name not in needs:
                continue
            path.append(name)
            on_path.add(name)
            stack.append((name, True))
            stack.extend((needed, False) for needed in sorted(needs[name], reverse=True))
    return None
