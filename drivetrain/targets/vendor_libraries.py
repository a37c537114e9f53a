"""Which steps need a library that only its vendor's images hold, by strategy or by a script's distribution."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import InputError, SpecError
from drivetrain.base.records import dataclass
from drivetrain.catalog.strategies import read_strategy, strategy_names
from drivetrain.spec.pipeline import Pipeline
from drivetrain.spec.steps import TrainingStep, flatten, is_our_training
from drivetrain.spec.trainings import ways
from drivetrain.spec.values import ParameterRef

TRAIN_SCRIPT = "drivetrain.components.train_script:train_script"


@dataclass(frozen=True)
class Needed:
    """A step and the library that it needs."""

    step: TrainingStep
    library: str
    framework: str
    """pytorch or tensorflow."""
    field: str
    """What of the step asks for it."""
    value: str
    instead: str
    """What to give there instead, for where there is no such library."""
    machines: tuple[str, ...]
    """On which it may run, as far as they are known."""


def libraries_of(pipeline: Pipeline) -> list[Needed]:
    """Of all steps of a pipeline.

    Raises:
        SpecError: a script's distribution that is none.
    """
    return [
        needed for step in flatten(pipeline.steps) if isinstance(step, TrainingStep) for needed in _of(step, pipeline)
    ]


def library_of(step: TrainingStep, pipeline: Pipeline) -> Needed | None:
    """Of one step; None where it needs none."""
    return next(_of(step, pipeline), None)


def _of(step: TrainingStep, pipeline: Pipeline) -> Iterator[Needed]:
    machines = _machines(step, pipeline)
    if is_our_training(step):
        known = strategy_names()
        for name in dict.fromkeys(training.strategy for training in ways(step, pipeline.parameters)):
            facts = read_strategy(name) if name in known else None
            if facts and facts.library:
                instead = f"strategy={facts.instead!r}, which does the same with torch alone"
                yield Needed(step, facts.library, "pytorch", "strategy", facts.name, instead, machines)
    elif step.program.target == TRAIN_SCRIPT:
        text = step.parameters.get("distribution", "{}")
        if not isinstance(text, str):
            return  # the run will know
        from drivetrain.steps import distribution

        try:
            library = distribution.read(text).library
        except InputError as error:
            raise SpecError(f"Step {step.name!r}: {error}") from None
        if library:
            framework = "tensorflow" if any(need.startswith("tensorflow") for need in step.program.needs) else "pytorch"
            instead = "a script that is distributed by its framework alone, with the launcher torchrun"
            yield Needed(step, library, framework, "distribution", library, instead, machines)


def _machines(step: TrainingStep, pipeline: Pipeline) -> tuple[str, ...]:
    given: list[object] = [step.cluster.machine, *step.cluster.groups, *step.cluster.alternatives]
    found: list[str] = []
    for each in given:
        if isinstance(each, ParameterRef):
            declared = [p for p in pipeline.parameters if p.name == each.name]
            found += [value for p in declared for value in (p.default, *p.choices) if isinstance(value, str)]
        else:
            name = each if isinstance(each, str) else getattr(each, "instance_type", None)
            found += [name] if isinstance(name, str) else []
    return tuple(dict.fromkeys(found))
