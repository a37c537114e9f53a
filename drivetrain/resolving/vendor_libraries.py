"""Steps that need a library that only its vendor's images hold, by strategy or by a script's distribution."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import InputError, SpecError
from drivetrain.base.records import dataclass
from drivetrain.resolving.frameworks import strategies_of
from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.spec.steps import TRAIN_SCRIPT, TrainingStep, is_our_training


@dataclass(frozen=True)
class Needed:
    """A step and the library that it needs."""

    step: TrainingStep
    library: str
    framework: str
    """pytorch or tensorflow."""
    field: str
    """The field of the step that asks for it."""
    value: str
    instead: str
    """The value to give there instead, if there is no such library."""
    machines: tuple[str, ...]
    """The machines on which it may run, as far as they are known."""


def libraries_of(pipeline: Pipeline) -> list[Needed]:
    """The libraries of all steps of a pipeline.

    Raises:
        SpecError: a script's distribution is invalid.
    """
    graph = Graph(pipeline)
    return [needed for step in graph.steps if isinstance(step, TrainingStep) for needed in _of(step, graph)]


def library_of(step: TrainingStep, graph: Graph) -> Needed | None:
    """The library of one step; None if it needs none."""
    return next(_of(step, graph), None)


def _of(step: TrainingStep, graph: Graph) -> Iterator[Needed]:
    machines = graph.instance_types(step)
    if is_our_training(step):
        for facts in strategies_of(step, graph.pipeline.parameters):
            if facts.library:
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
