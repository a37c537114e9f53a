"""The protocol of targets. A target is a folder below this one, with a file `target.py` that keeps it.

    target = find_target("kubeflow")
    for problem in target.check(pipeline): ...      # what this target cannot express, by step and field
    compiled = target.compile(pipeline, source)     # pure: text, the objects that it names, notes

Nothing above the targets names one: the command line's `--target` and a deployment's `target` do.

Here is also what every target tells a step's program alike: flags, variables, and the name of its checkpoints' place. A
target says how values are spelled and where folders lie.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import drivetrain.targets as folder
from drivetrain.base.errors import SpecError, UserError, did_you_mean
from drivetrain.base.records import dataclass

if TYPE_CHECKING:
    from drivetrain.assets.assets import Asset
    from drivetrain.run_store.events import ExecutionFinished, Observer
    from drivetrain.spec.deployment import Deployment
    from drivetrain.spec.pipeline import Graph, Pipeline
    from drivetrain.spec.steps import JobStep, NativeStep, ProcessingStep, Step, TrainingStep

DEFAULT = "sagemaker"
# What a component with `registry: str = "auto"` asks: the registry of the platform that it runs on.
REGISTRY_VARIABLE = "DRIVETRAIN_REGISTRY"
EVIDENCE_VARIABLE = "DRIVETRAIN_EVIDENCE"
"""As FOLDER_VARIABLE of drivetrain/registry/evidence.py."""


@dataclass(frozen=True)
class Problem:
    """A part of a pipeline that a target cannot express.

    `step` is empty where it is the pipeline's own; `field` is the field of the step or pipeline, such as
    `cluster.groups`, and empty where the reason names it; `reason` says why and what to use instead.
    """

    step: str
    field: str
    reason: str

    def __str__(self) -> str:
        where = f"Step {self.step!r}" if self.step else "The pipeline"
        return ": ".join(part for part in (where, self.field, self.reason) if part)


class Compiled(Protocol):
    """A pipeline in a target's own words."""

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that was compiled; choices such as `strategy: auto` are settled in it."""
        ...

    @cached_property
    def text(self) -> str:
        """The text that is deployed, as people read it and golden files hold it."""
        ...

    @property
    def assets(self) -> tuple[Asset, ...]:
        """The objects that it names, which must be in the target's storage before it runs."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what does not hinder a run on this machine, but will hinder a deployment."""
        ...


class Target(Protocol):
    """The names that a `target.py` has."""

    TITLE: str
    """The target's name for people: `Kubeflow Pipelines`."""
    SUFFIX: str
    """The suffix of a file with a compiled pipeline: `.yaml`."""

    def check(self, pipeline: Pipeline) -> Sequence[Problem]:
        """List what the target cannot express, in the order of the steps; empty if it can express all."""
        ...

    def compile(
        self, pipeline: Pipeline, source: Path | None = None, base: Path | None = None, *, here: bool = False
    ) -> Compiled:
        """Turn a pipeline that `check` accepts into the target's words: offline, the same bytes each time.

        Args:
            source: folder of the user's pipeline file, whose Python files travel into the containers.
            base: folder that relative data paths start from; the current one unless given.
            here: for a run on this machine, which does without what only a deployment needs: leave out a
                wheel that is not to be had, and say so in the notes.

        Raises:
            SpecError: what the target cannot express, or would refuse.
            UserError: data that is not there.
        """
        ...


@runtime_checkable
class RunsHere(Protocol):
    """Further names of a `target.py` if what it compiles can run on this machine."""

    def run(self, compiled: Any, parameters: Mapping[str, Any], home: Path, observer: Observer) -> ExecutionFinished:
        """Run what `compile` gave, from its beginning to its end.

        Args:
            compiled: of this target's own `compile`.
            parameters: given values, also as texts; the rest are defaults.
            home: the folder of runs and models.
            observer: is given every event, in the calling thread, after the ledger has it.

        Raises:
            UserError: wrong parameters, or something that the run needs is not installed.
        """
        ...


@runtime_checkable
class AsksRegistry(Protocol):
    """Further names of a `target.py` if deployed steps can ask a registry of models."""

    def registry(self, deployment: Deployment) -> str | None:
        """KIND:LOCATION of the registry that steps ask where it is deployed; None where settings name none."""
        ...

    def evidence(self, deployment: Deployment) -> str:
        """The place where a deployed comparison keeps what the rows of each night say, as a text for people."""
        ...


@dataclass(frozen=True)
class Inspection:
    """A target's findings on the text of a definition, by any author."""

    num_steps: int
    """How many steps there are; those of a loop's body count once."""
    num_unchecked: int
    """How many of them are of a type that is not known here, so that nothing of theirs was checked."""
    problems: Sequence[str]
    """Lines about what would be refused, and where; empty if nothing would be."""
    notes: Sequence[str]
    """Lines about what is not known of it."""
    facts: Mapping[str, Any]
    """All of it, for programs, as JSON has it."""


class Inspector(Protocol):
    """Further names of a `target.py` if the target can read the definitions of others."""

    def reads(self, text: bytes) -> bool:
        """Return True if a text seems to be a definition for this target."""
        ...

    def inspect(self, text: bytes, source: str) -> Inspection:
        """Inspect a definition.

        Args:
            source: names the text in messages.

        Raises:
            UserError: it is none.
        """
        ...


def target_names() -> list[str]:
    """The targets, sorted: the folders that have a target.py, here and wherever else `drivetrain.targets.__path__`
    leads (a package that brings a target of its own appends its folder to it)."""
    found = (module for module in pkgutil.iter_modules(folder.__path__) if module.ispkg)
    return sorted(each.name for each in found if find_spec(f"{folder.__name__}.{each.name}.target") is not None)


def find_target(name: str) -> Target:
    """The target of that name, imported.

    Raises:
        UserError: there is none.
    """
    names = target_names()
    if name not in names:
        raise UserError(f"There is no target {name!r}. {did_you_mean(name, names)}")
    return cast(Target, importlib.import_module(f"{folder.__name__}.{name}.target"))


def inspector(name: str) -> Inspector:
    """The target of that name, which can read definitions.

    Raises:
        UserError: there is no such target, or it does not read definitions.
    """
    found = find_target(name)
    if not hasattr(found, "inspect"):
        raise UserError(f"{found.TITLE} reads no definitions. Check the pipeline itself: drivetrain compile.")
    return cast(Inspector, found)


def inspector_of(text: bytes, source: str) -> Inspector:
    """The target that a definition's text is for: by its content, or else by the end of its file's name."""
    readers = {name: target for name in target_names() if hasattr(target := find_target(name), "inspect")}
    by_content = (name for name, target in readers.items() if cast(Inspector, target).reads(text))
    by_name = (name for name, target in readers.items() if source.endswith(target.SUFFIX))
    return inspector(next(by_content, None) or next(by_name, DEFAULT))


def refuse(problems: Iterable[Problem], title: str) -> None:
    """
    Raises:
        SpecError: there is a problem; the message says the first ones, and how many more there are.
    """
    found = list(problems)
    if not found:
        return
    more = f"\n  and {len(found) - 5} more" if len(found) > 5 else ""
    raise SpecError(f"{title} cannot express this pipeline.\n  " + "\n  ".join(map(str, found[:5])) + more)


def flag(name: str) -> str:
    """The command-line spelling: `max_digits` is given as `--max-digits`."""
    return "--" + name.replace("_", "-")


def environment_of(step: JobStep, given: Mapping[str, Any], registry: str | None) -> dict[str, Any]:
    """The variables of a step's program.

    Args:
        given: the step's own, as the target spells them.
        registry: what `registry: auto` means there.
    """
    from drivetrain.spec.resources import Spot

    environment = dict(given)
    if registry is not None and step.parameters.get("registry") == "auto":
        environment.setdefault(REGISTRY_VARIABLE, registry)
    if step.cluster.processes is not None:
        environment["DRIVETRAIN_PROCESSES"] = str(step.cluster.processes)
    if isinstance(step.cluster.spot, Spot) and step.cluster.spot.max_interruptions is not None:
        environment["DRIVETRAIN_MAX_INTERRUPTIONS"] = str(step.cluster.spot.max_interruptions)
    return environment


def files_read(step: ProcessingStep, graph: Graph) -> list[str]:
    """The step's files, as OUTPUT/FILE, from which values are read: that of its numbers, then what it writes itself."""
    from drivetrain.spec.values import MetricRef
    from drivetrain.steps import METRICS_FILE, METRICS_OUTPUT

    own = {
        reference.file
        for references in graph.references.values()
        for reference in references
        if isinstance(reference, MetricRef) and reference.file and reference.step == step.name
    }
    return [*([f"{METRICS_OUTPUT}/{METRICS_FILE}"] if step.metrics != () else []), *sorted(own)]


def checkpoint_folder(step: TrainingStep, parameters: Mapping[str, Any]) -> str:
    """`<step>/<digest>`: where a training's checkpoints lie below its pipeline's.

    No execution id: a retried training finds its checkpoints, and the cache key stays the same. What makes a training
    what it is, is known when it runs: it works in a subfolder of its own (drivetrain/steps/trainings.py). Parameters
    that a resumed run may change do not count.

    Args:
        parameters: the step's, as the target spells them.
    """
    configuration = {
        "program": step.program.target,
        "parameters": {name: value for name, value in parameters.items() if name not in step.resumable_parameters},
    }
    digest = hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest()[:16]
    return f"{step.name}/{digest}"


def with_fresh(pipeline: Pipeline, native: Callable[[NativeStep], NativeStep] = lambda step: step) -> Pipeline:
    """The pipeline with the parameter of starts with --fresh (fresh.py), and its value in the environment of each job;
    as it is where no job is cached or trains.

    Args:
        native: gives a step of the target's own that is cached the value, too; others as they are.
    """
    from drivetrain.spec.pipeline import Parameter, Pipeline, replaced
    from drivetrain.spec.steps import JobStep, NativeStep, TrainingStep, flatten
    from drivetrain.steps import FRESH_PARAMETER, FRESH_VARIABLE, NOT_FRESH

    def is_told(step: Step) -> bool:
        if isinstance(step, NativeStep):
            return type(step) is NativeStep and native(step) is not step  # drivetrain.native's are as they are
        return isinstance(step, JobStep) and (isinstance(step, TrainingStep) or (step.cache or pipeline.cache).enabled)

    if not any(map(is_told, flatten(pipeline.steps))):
        return pipeline
    parameter = Parameter.string(FRESH_PARAMETER, NOT_FRESH)

    def told(step: Step) -> Iterator[Step]:
        if isinstance(step, JobStep):
            yield step.model_copy(update={"environment": {**step.environment, FRESH_VARIABLE: parameter.ref()}})
        else:
            yield native(step) if isinstance(step, NativeStep) else step

    others = (each for each in pipeline.parameters if each != parameter)  # which an imported one has
    changed = {"parameters": (*others, parameter), "steps": replaced(pipeline.steps, told)}
    # The spec's own: the rules hold for what the author wrote.
    return Pipeline.model_copy(pipeline, update=changed)
