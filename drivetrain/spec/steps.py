"""The steps of a pipeline: what each needs, makes and takes, in words that no target owns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard

from pydantic import Field

from drivetrain.base.call_site import place_of_caller, record
from drivetrain.base.errors import SpecError, did_you_mean
from drivetrain.base.records import dataclass
from drivetrain.catalog import quotas
from drivetrain.spec import Frozen, FrozenDict, FrozenMap, Lazily
from drivetrain.spec.resources import CachePolicy, Checkpoint, Cluster, FolderPath, Program, RetryPolicy
from drivetrain.spec.training_options import Search, TrainingOptions
from drivetrain.spec.values import (
    BestRef,
    Condition,
    CountRef,
    EagerValue,
    IterationRef,
    LambdaOutputRef,
    LoggedRef,
    MetricRef,
    NestedValue,
    OutputRef,
    PropertyRef,
    Value,
    ValueType,
)

if TYPE_CHECKING:
    from drivetrain.spec.reports import Report

Trigger = Literal["Failed", "Stopped", "Any"]


class Dependency(Frozen):
    """An edge that no reference makes: run after `step`, or because of how it ended.

    Args:
        step: the step, or its name, which is what is kept.
        trigger: how it has to end; success, unless given.
    """

    step: str
    trigger: Trigger | None = None

    def __init__(self, step: BaseStep | str | None = None, trigger: Trigger | None = None, **unknown: Any) -> None:
        given = {"step": step.name if isinstance(step, BaseStep) else step, "trigger": trigger}
        super().__init__(**{name: value for name, value in given.items() if value is not None}, **unknown)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # as Frozen's: JSON needs none of it


# What the declaration of drivetrain.components.train calls itself; importing it would cost every compilation its time.
TRAIN = "drivetrain.components.train:train"
TRAIN_SCRIPT = "drivetrain.components.train_script:train_script"
KUBEFLOW_TASK = "KubeflowTask"  # the type of a step of drivetrain.native.kubeflow


class BaseStep(Frozen):
    """The fields of every step."""

    name: str
    display_name: Annotated[str, Field(max_length=quotas.MAX_DISPLAY_NAME_CHARACTERS)] | None = None
    description: Annotated[str, Field(max_length=quotas.MAX_DESCRIPTION_CHARACTERS)] | None = None
    depends_on: tuple[Dependency, ...] = ()

    def model_post_init(self, context: Any, /) -> None:
        object.__setattr__(self, "_place", place_of_caller())  # beside the fields: no part of its value
        record(self)

    @property
    def place(self) -> str:
        """The line of the user's file that wrote the step; empty where none did."""
        return self.__dict__.get("_place", "")

    def output_names(self) -> tuple[str, ...]:
        """Folders that other steps can read."""
        return ()

    def __getitem__(self, output: str) -> OutputRef:
        """The output folder, to be given to another step.

        Raises:
            SpecError: when the step has no such output.
        """
        names = self.output_names()
        if output not in names:
            raise SpecError(f"Step {self.name!r} has no output {output!r}. {did_you_mean(str(output), names)}")
        return OutputRef(step=self.name, output=output)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        raise SpecError(f"Step {self.name!r} cannot be unpacked; take its outputs by name: step['name'].")

    def property(self, path: str, type: ValueType = "String") -> PropertyRef:
        """A field of the service's description of the step."""
        return PropertyRef(step=self.name, path=path, type=type)


class JobStep(BaseStep):
    """A step that runs a program on machines; `fixed` names inputs whose data never change."""

    program: Program
    inputs: FrozenMap[Value] = Field(default_factory=FrozenDict)
    fixed: tuple[str, ...] = ()
    parameters: FrozenMap[Value] = Field(default_factory=FrozenDict)
    arguments: tuple[Annotated[EagerValue | FolderPath, Lazily()], ...] = ()
    """Further arguments of a script, in order."""
    cluster: Cluster = Cluster()
    image: str | None = None
    environment: FrozenMap[Value] = Field(default_factory=FrozenDict)
    tags: FrozenMap[str] = Field(default_factory=FrozenDict)
    cache: CachePolicy | None = None
    """The pipeline's policy unless given."""
    retry: tuple[RetryPolicy, ...] = ()

    def report(self, output: str, file: str) -> Report:
        """A JSON file in an output; `.value("metrics.accuracy")` can be decided on."""
        from drivetrain.spec.reports import Report

        return Report(self.name, f"{self[output].output}/{file}")


class ProcessingStep(JobStep, defer_build=False):
    """A job with named input and output folders; numbers that it returns can be decided on."""

    kind: Literal["processing"] = "processing"
    outputs: tuple[str, ...] = ()
    metrics: tuple[str, ...] | None = ()
    """Names of what comes back; None when only the run will tell."""
    texts: tuple[str, ...] = ()
    """Those of them that are texts; the others are numbers."""

    def output_names(self) -> tuple[str, ...]:
        return (*self.outputs, *(("metrics",) if self.metrics != () else ()))

    def metric(self, name: str) -> MetricRef:
        """A number that the step returns.

        Raises:
            SpecError: the step declares its numbers, and this is not one of them.
        """
        if name in self.texts:
            raise SpecError(f"{name!r} of step {self.name!r} is a text. Take it by step.text({name!r}).")
        if self.metrics is not None and name not in self.metrics:
            numbers = [each for each in self.metrics if each not in self.texts]
            raise SpecError(f"Step {self.name!r} returns no {name!r}. {did_you_mean(name, numbers)}")
        return MetricRef(step=self.name, name=name)

    def text(self, name: str) -> MetricRef:
        """A text that the step returns, such as a hash or a reason.

        Raises:
            SpecError: when the step declares no such text.
        """
        if name not in self.texts:
            raise SpecError(f"Step {self.name!r} returns no text {name!r}. {did_you_mean(name, self.texts)}")
        return MetricRef(step=self.name, name=name, type="String")


class TrainingStep(JobStep):
    """A training job: channels in, `model` and `output` out, checkpoints beside."""

    kind: Literal["training"] = "training"
    outputs: tuple[str, ...] = ("model", "output")
    """The folders that the program takes; a folder that it does not write cannot be read by other steps."""
    checkpoint: Checkpoint | None = None
    logs: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Training metrics: name -> regular expression with one group that finds it in the log."""
    resumable_parameters: tuple[str, ...] = ()
    """Parameters that a resumed run may change, such as the number of epochs."""
    options: TrainingOptions = TrainingOptions()

    def output_names(self) -> tuple[str, ...]:
        return self.outputs

    def logged(self, name: str) -> LoggedRef:
        """The last value of a training metric found in the log."""
        if name not in [*self.logs]:
            raise SpecError(f"Step {self.name!r} logs no {name!r}. {did_you_mean(str(name), self.logs)}")
        return LoggedRef(step=self.name, name=name)

    def metric(self, name: str) -> LoggedRef:
        """The same as `logged`."""
        return self.logged(name)


class TuningStep(TrainingStep):
    """Many trainings with hyperparameters that a search chooses; its outputs are those of the best training."""

    kind: Literal["tuning"] = "tuning"  # type: ignore[assignment]
    search: Search

    def logged(self, name: str) -> LoggedRef:
        """The best value of the objective."""
        if name != self.search.objective:
            raise SpecError(f"Step {self.name!r} exposes only its objective {self.search.objective!r}, not {name!r}.")
        return LoggedRef(step=self.name, name=name)

    def best(self, name: str) -> BestRef:
        """The best training's value of a hyperparameter that was searched: the service's text as what it spells.

        Raises:
            SpecError: it was not searched.
        """
        options = (each for each in self.search.ranges if each.endswith(f".{name}"))
        name = name if name in self.search.ranges else next(options, name)
        if name not in self.search.ranges:
            raise SpecError(f"Step {self.name!r} searches no {name!r}. {did_you_mean(name, self.search.ranges)}")
        return BestRef(step=self.name, name=name, spells=self.search.ranges[name].value_type)


class RegisterStep(BaseStep, defer_build=False):
    """A new version of a model group, unless the same content is registered already."""

    kind: Literal["register"] = "register"
    group: Value
    model: Value
    metrics: Value | None = None
    """The folder with metrics.json, as `decision` is that with decision.json."""
    evaluation: Value | None = None
    """The report of evaluate, whose model_quality.json becomes the version's; it stands before `metrics`."""
    decision: Value | None = None
    data_check: Value | None = None
    """The report of check_data, whose model_monitor/ becomes the version's baselines."""
    approval: Value = "PendingManualApproval"
    image: str | None = None
    """The container image that serves the model; that of the deployment unless given."""
    content_types: tuple[str, ...] = ()
    """Content types that the served model reads; empty for all that the models of `train` do, or JSON for others."""
    response_types: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    metadata: FrozenMap[Value] = Field(default_factory=FrozenDict)
    card: FrozenMap[Any] | None = None
    """The model card, in the service's schema: model_overview, intended_uses, ..."""
    retry: tuple[RetryPolicy, ...] = ()


class ConditionStep(BaseStep, defer_build=False):
    """Runs one branch or the other. Branches do not rejoin."""

    kind: Literal["condition"] = "condition"
    condition: Condition
    then: tuple[Step, ...] = ()
    otherwise: tuple[Step, ...] = ()


class FailStep(BaseStep, defer_build=False):
    """Ends the execution as failed, saying why."""

    kind: Literal["fail"] = "fail"
    message: Value


class LambdaStep(BaseStep):
    """Calls a function with a small payload and takes named values back."""

    kind: Literal["lambda"] = "lambda"
    function: Value
    payload: FrozenMap[NestedValue] = Field(default_factory=FrozenDict)
    outputs: FrozenMap[ValueType] = Field(default_factory=FrozenDict)

    def value(self, name: str) -> LambdaOutputRef:
        """A value that the function returns."""
        if name not in self.outputs:
            raise SpecError(f"Step {self.name!r} returns no {name!r}. {did_you_mean(name, self.outputs)}")
        return LambdaOutputRef(step=self.name, name=name, type=self.outputs[name])


class Selector(Frozen):
    """Picks the iteration of a for_each in which a value of a step of its body is the largest or the smallest."""

    pick: Literal["MaxBy", "MinBy"]
    value: Annotated[LoggedRef | LambdaOutputRef | PropertyRef, Field(discriminator="kind")]

    @property
    def step(self) -> str:
        return self.value.step


class ForEachStep(BaseStep):
    """Runs the steps of its body once an item; they stand in it alone."""

    kind: Literal["for-each"] = "for-each"
    items: tuple[EagerValue, ...] | EagerValue
    """Objects as JSON text; or a reference to the JSON text of a list."""
    body: tuple[Step, ...]
    max_concurrency: Annotated[int, Field(ge=1, le=quotas.MAX_FOREACH_CONCURRENCY)]
    key: str = ""
    """The field of an item that names its iteration in places of outputs and checkpoints; else the item itself."""
    selector: Selector | None = None

    @property
    def best(self) -> IterationOutputs:
        """The outputs of the selected step in the iteration that was picked.

        Raises:
            SpecError: nothing is selected.
        """
        if self.selector is None:
            raise SpecError(f"Step {self.name!r} selects nothing. Give for_each(..., best=largest(...)).")
        return IterationOutputs(self.name, None, self._step(self.selector.step))

    def of(self, index: int, step: BaseStep) -> IterationOutputs:
        """The outputs of a step of the body in one iteration, counted from 0.

        Raises:
            SpecError: there is no such iteration or step.
        """
        if index < 0 or (isinstance(self.items, tuple) and index >= len(self.items)):
            has = f"has {len(self.items)} items" if isinstance(self.items, tuple) else "counts from 0"
            raise SpecError(f"{self.name!r}: of({index}, ...): there is no such iteration; it {has}.")
        return IterationOutputs(self.name, index, self._step(step.name))

    def count(self, which: Literal["Total", "Succeeded", "Failed", "Stopped"] = "Succeeded") -> CountRef:
        """How many steps of iterations there were, or ended so."""
        return CountRef(step=self.name, which=which)

    def _step(self, name: str) -> BaseStep:
        names = {step.name: step for step in self.body}
        if name not in names:
            raise SpecError(f"The body of {self.name!r} has no step {name!r}. {did_you_mean(name, names)}")
        return names[name]


@dataclass(frozen=True)
class IterationOutputs:
    """The outputs of a step in one iteration of a for_each, as other steps refer to them."""

    loop: str
    index: int | None
    step: BaseStep

    def __getitem__(self, output: str) -> IterationRef:
        """The output folder, to be given to another step.

        Raises:
            SpecError: the step has no such output, or the service names it nowhere.
        """
        found = self.step[output]
        if isinstance(self.step, TrainingStep) and (output != "model" or isinstance(self.step, TuningStep)):
            what = "tuning" if isinstance(self.step, TuningStep) else "step"
            raise SpecError(
                f"Output {output!r} of {what} {self.step.name!r} cannot be taken from an iteration: SageMaker's "
                "description of a training names the model alone, that of a tuning no output. Tune outside of it."
            )
        return self._of(found)

    def property(self, path: str, type: ValueType = "String") -> IterationRef:
        """A field of the service's description of the step."""
        return self._of(self.step.property(path, type))

    def value(self, name: str) -> IterationRef:
        """A value that a Lambda function returned."""
        if not isinstance(self.step, LambdaStep):
            raise SpecError(f"Step {self.step.name!r} calls no function. Take its outputs: ...['name'].")
        return self._of(self.step.value(name))

    def logged(self, name: str) -> IterationRef:
        """The last value of a training metric found in the log."""
        if not isinstance(self.step, TrainingStep):
            raise SpecError(f"Step {self.step.name!r} is no training, so nothing is logged.")
        return self._of(self.step.logged(name))

    def _of(self, value: OutputRef | LoggedRef | LambdaOutputRef | PropertyRef) -> IterationRef:
        return IterationRef(step=self.loop, index=self.index, of=value)


class NativeStep(BaseStep):
    """A step of the service that the spec has no words for yet, carried through as it is."""

    kind: Literal["native"] = "native"
    type: str
    fields: FrozenMap[Any] = Field(default_factory=FrozenDict)
    """The step's JSON without Name, Type, DisplayName, Description and DependsOn."""


_Job = ProcessingStep | TrainingStep | TuningStep
Step = Annotated[_Job | RegisterStep | ConditionStep | FailStep | LambdaStep | ForEachStep | NativeStep, Lazily("kind")]
ConditionStep.model_rebuild()


def is_our_training(step: BaseStep) -> TypeGuard[TrainingStep]:
    """Return True if a step runs drivetrain.components.train, whose settings are known here."""
    return isinstance(step, TrainingStep) and step.program.target == TRAIN


def flatten(steps: tuple[Step, ...]) -> list[Step]:
    """Every step, those in branches and bodies included, in the order in which they were written."""
    found: list[Step] = []
    for step in steps:
        found.append(step)
        if isinstance(step, ConditionStep):
            found += flatten((*step.then, *step.otherwise))
        elif isinstance(step, ForEachStep):
            found += flatten(step.body)
    return found
