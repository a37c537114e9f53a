"""Looks at what a pipeline reads, where something starts it by itself.

A step's cache knows the address of its data and not what lies there: on a schedule, a step that reads `s3://lake/raw/`
would run in the first night alone. So each folder, prefix, table and query that such a pipeline reads gets a step that
finds its version out in each execution (components/source_version.py), and the version is an input of the step that
reads. The same version is taken from the cache, a new one is read. The cache itself is the memory: it knows what has
succeeded, so a night that failed is made up, and there is no record that could be wrong.

Inputs without a version (a query without a watermark, a file system, an item of a loop) are read anew each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from drivetrain.base.errors import UserError
from drivetrain.spec.pipeline import Pipeline, Schedule
from drivetrain.spec.resources import (
    READ_SOURCE,
    SOURCE_VERSION,
    SOURCES_VARIABLE,
    CachePolicy,
    Cluster,
    Program,
    is_file_system,
)
from drivetrain.spec.steps import (
    ConditionStep,
    ForEachStep,
    JobStep,
    ProcessingStep,
    Step,
    TrainingStep,
    TuningStep,
    flatten,
)
from drivetrain.spec.values import Join, MetricRef, ParameterRef, Reference, Value, references_in

_READ_NEEDS = ("numpy", "pyarrow", "boto3")
_LIST_NEEDS = ("boto3",)
Job = TypeVar("Job", bound=JobStep)
_NEW_EACH_TIME = CachePolicy(enabled=False)


_Asked = tuple[tuple[str, Value], ...]


def with_looks(pipeline: Pipeline) -> Pipeline:
    """The pipeline with a step for each source that it reads; itself where nothing starts it, or it reads none."""
    if not pipeline.triggers:
        return pipeline
    looks = _Looks(pipeline)
    steps = tuple(looks.before(pipeline.steps))
    return pipeline.model_copy(update={"steps": steps}) if looks.changed else pipeline


def refuse_data_that_never_change(pipeline: Pipeline) -> None:
    """
    Raises:
        UserError: a schedule starts the pipeline, which would read one uploaded copy each time.
    """
    clocks = [trigger.name for trigger in pipeline.triggers if isinstance(trigger, Schedule) and trigger.enabled]
    if not clocks:
        return
    for step in (step for step in flatten(pipeline.steps) if isinstance(step, JobStep)):
        for name, value in step.inputs.items():
            if isinstance(value, str) and not _is_far(value) and name not in step.fixed:
                raise UserError(
                    f"Step {step.name!r} reads {value!r} of this machine as {name!r}, and schedule {clocks[0]!r} "
                    "starts the pipeline: each start would read the one copy that is uploaded now, so nothing new is "
                    "ever seen. Give an s3:// prefix or a table (read_source), or say that the data never change: "
                    f"{name}=fixed({value!r})."
                )


def _is_far(value: str) -> bool:
    """Return True if a literal input lies elsewhere than on this machine."""
    return "://" in value


class _Looks:
    """One pipeline's looks, by what they look at: two steps that read one source share one."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.changed = False
        self._known: dict[_Asked, ProcessingStep] = {}
        self._new: list[ProcessingStep] = []
        self._names = {step.name for step in flatten(pipeline.steps)}

    def before(self, steps: Iterable[Step]) -> Iterator[Step]:
        """The steps, each after the looks that it is the first to need."""
        for step in steps:
            read = self._inside(step)
            yield from self._new
            self._new.clear()
            yield read

    def _inside(self, step: Step) -> Step:
        """A step that is told the versions of what it reads; of a condition or loop, those within."""
        match step:
            case ConditionStep():
                return self._nested(step, "then", "otherwise")
            case ForEachStep():
                return self._nested(step, "body")
            case ProcessingStep() | TrainingStep() if (
                step.cache or self.pipeline.cache
            ).enabled and SOURCES_VARIABLE not in step.environment:
                found = self._reader(step) if step.program.target == READ_SOURCE else self._inputs(step)
                self.changed |= found is not step
                return found
            case _:
                return step

    def _nested(self, step: Step, *names: str) -> Step:
        before = {name: getattr(step, name) for name in names}
        after = {name: tuple(map(self._inside, nested)) for name, nested in before.items()}
        return step.model_copy(update=after) if after != before else step

    def _reader(self, step: Job) -> Job:
        """read_source, which is given the version that was seen, so that it reads that one."""
        given = step.parameters
        if given.get("version", "") != "" or "source" in step.fixed:
            return step
        asked = {name: given[name] for name in ("source", "query", "watermark") if given.get(name, "") != ""}
        if ("query" in asked and "watermark" not in asked) or not _can_be_seen(asked.values()):
            return step.model_copy(update={"cache": _NEW_EACH_TIME})
        look = self._look(step, "source", asked, _READ_NEEDS)
        return step.model_copy(update={"parameters": {**given, "version": _version(look)}})

    def _inputs(self, step: Job) -> Job:
        """Another step, with the versions of its inputs in its environment."""
        read = {
            name: value
            for name, value in step.inputs.items()
            if name not in step.fixed and (_is_far(value) if isinstance(value, str) else _is_given(value))
        }
        if not read:
            return step
        # A tuning's environment is not in its cache key.
        if isinstance(step, TuningStep) or not _can_be_seen(read.values()):
            return step.model_copy(update={"cache": _NEW_EACH_TIME})
        looks = [
            self._look(step, name, {"source": value, "of_input": True}, _LIST_NEEDS) for name, value in read.items()
        ]
        # One variable each: of a processing job its value has at most 256 characters, and a version has 64.
        told = {
            SOURCES_VARIABLE + ("" if number == 1 else f"_{number}"): _version(look)
            for number, look in enumerate(looks, 1)
        }
        return step.model_copy(update={"environment": {**step.environment, **told}})

    def _look(self, reader: JobStep, name: str, asked: dict[str, Value], needs: tuple[str, ...]) -> ProcessingStep:
        """The step that looks, on a small machine, with the reader's image, network and credentials."""
        key = tuple(asked.items())
        if key not in self._known:
            self._known[key] = ProcessingStep(
                name=self._free(f"look-at-{reader.name}-{name}".replace("_", "-")),
                description=f"Find out whether what {reader.name} reads has changed.",
                program=Program(kind="component", target=SOURCE_VERSION, needs=needs),
                metrics=("version",),
                texts=("version",),
                parameters=asked,
                cluster=Cluster(network=reader.cluster.network),
                image=reader.image,
                environment=reader.environment,
                tags=reader.tags,
                cache=_NEW_EACH_TIME,
                retry=reader.retry,
            )
            self._new.append(self._known[key])
        return self._known[key]

    def _free(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self._names:
            name, number = f"{wanted}-{number}", number + 1
        self._names.add(name)
        return name


def _version(look: ProcessingStep) -> MetricRef:
    return look.text("version")


def _is_given(value: Value) -> bool:
    """Return True if a reference stands for a value from outside the pipeline, not for a step's output."""
    return not any(hasattr(reference, "step") for reference in references_in(value))


def _can_be_seen(values: Iterable[Value]) -> bool:
    """Return True if a step before all loops can read these values; a file system needs a mount."""
    for value in values:
        if is_file_system(value):
            return False
        if isinstance(value, Reference) and any(not isinstance(r, ParameterRef | Join) for r in references_in(value)):
            return False
    return True
