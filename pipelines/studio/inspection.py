"""What there is to say of a definition that somebody else made: what it holds, what is unknown, what would be refused.

found = inspect(read(path.read_bytes(), str(path)))
found.faults, found.refused, found.unknown_types, found.unknown_fields
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from drivetrain.pipelines.definition import graph
from drivetrain.pipelines.definition.document import Definition, StepNode
from drivetrain.pipelines.definition.parameters import problems as problems_of
from drivetrain.pipelines.definition.step_types import EVERY_STEP, STEP_TYPES, TOP_LEVEL

MOST = 100


@dataclass(frozen=True)
class Inspection:
    """What was found, in the order of the definition; at most MOST lines of each kind."""

    types: dict[str, int]
    """Step type -> how many, the most frequent first; steps of a ForEach's body count once."""
    unknown_types: dict[str, tuple[str, ...]]
    """Step type that no document names -> its steps. They are kept as they are."""
    unknown_fields: tuple[str, ...]
    """Fields that no document names, with the step that has them. They are kept as they are."""
    refused: tuple[str, ...]
    """What the service would refuse of the parameters and in the arguments of the steps, each with its path."""
    faults: tuple[str, ...]
    """Why it cannot run at all: names, references, conditions, cycles."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing would be refused."""
        return not self.refused and not self.faults

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the same names."""
        return {
            "types": self.types,
            "unknown_types": {kind: list(steps) for kind, steps in self.unknown_types.items()},
            "unknown_fields": list(self.unknown_fields),
            "refused": list(self.refused),
            "faults": list(self.faults),
        }


def inspect(definition: Definition) -> Inspection:
    """Everything there is to say of a definition; nothing of it is changed or refused."""
    steps = definition.all_steps
    unknown: dict[str, list[str]] = {}
    for step in steps:
        if step.type not in STEP_TYPES and not step.type.startswith("Bedrock"):
            unknown.setdefault(step.type, []).append(step.name)
    return Inspection(
        types=dict(Counter(step.type for step in steps).most_common()),
        unknown_types={kind: tuple(names) for kind, names in unknown.items()},
        unknown_fields=tuple(islice(_unknown_fields(definition, steps), MOST)),
        refused=tuple(islice(_refused(definition, steps), MOST)),
        faults=tuple(fault.removeprefix(f"{definition.source}: ") for fault in graph.faults(definition, MOST)),
    )


def _unknown_fields(definition: Definition, steps: tuple[StepNode, ...]) -> Iterator[str]:
    for field in definition.raw:
        if field not in TOP_LEVEL:
            yield field
    for step in steps:
        own = STEP_TYPES.get(step.type)
        for field in step.raw if own is not None else ():
            if field not in EVERY_STEP and field not in (own or ()):
                yield f"{step.name}: {field}"


def _refused(definition: Definition, steps: tuple[StepNode, ...]) -> Iterator[str]:
    from drivetrain.pipelines.masking import mask
    from drivetrain.pipelines.targets.sagemaker.shapes import check_arguments

    for parameter in definition.parameters:
        yield from problems_of(parameter)
    parameter_types = {parameter.name: parameter.type for parameter in definition.parameters}
    step_types = {step.name: step.type for step in steps}
    for step in steps:
        of_the_definition = (parameter_types, step_types)
        problems = [str(problem) for problem in check_arguments(step.type, step.arguments, *of_the_definition)]
        masked = mask(step.arguments) if problems else step.arguments
        harmless = {str(problem) for problem in check_arguments(step.type, masked, *of_the_definition)}
        for problem in problems:
            if problem in harmless:
                yield f"{step.name}: {problem}"
            else:  # it quotes what is called a secret
                where = problem.partition(": ")[0]
                yield f"{step.name}: {where}: not of the right form; what looks like a secret is not shown."
