"""Inspect a definition that others made: what it holds, what is unknown, what would be refused.

found = inspect(read(path.read_bytes(), str(path)))
found.faults, found.refused, found.unknown_types, found.unknown_functions, found.unknown_fields
print("\\n".join(found.problems()))      # as people read it
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any

from drivetrain.base.errors import UserError, and_more, did_you_mean
from drivetrain.base.formatting import count, printable
from drivetrain.base.json_text import Json
from drivetrain.base.masking import mask
from drivetrain.catalog import quotas
from drivetrain.catalog.quotas import MAX_CHOICES
from drivetrain.spec.binding import ALLOWED, TYPES, value_of_type
from drivetrain.targets.sagemaker.document import graph
from drivetrain.targets.sagemaker.document.difference.value_words import hidden, shown
from drivetrain.targets.sagemaker.document.document import Definition, DefinitionParameter, StepNode
from drivetrain.targets.sagemaker.document.expressions import FUNCTIONS
from drivetrain.targets.sagemaker.document.retirements import endings
from drivetrain.targets.sagemaker.document.service.shapes import check_arguments
from drivetrain.targets.sagemaker.document.step_types import EVERY_STEP, STEP_TYPES, TOP_LEVEL

MOST = 100
_MOST_SHOWN = 20
_MOST_WARNINGS = 10
_MOST_PLACES = 3


@dataclass(frozen=True)
class Inspection:
    """The findings of an inspection, in the order of the definition; at most MOST lines of each kind."""

    types: dict[str, int]
    """Step type -> how many, the most frequent first; steps of a ForEach's body count once."""
    unknown_types: dict[str, tuple[str, ...]]
    """Step type that no document names -> its steps. They are kept as they are."""
    unknown_functions: dict[str, tuple[str, ...]]
    """Function that no document names -> the steps that call it. They are kept as they are."""
    unknown_fields: tuple[str, ...]
    """Fields that no document names, with the step that has them. They are kept as they are."""
    endings: tuple[str, ...]
    """Services that AWS is closing, with the steps that use them."""
    refused: tuple[str, ...]
    """Problems for which the service would refuse parameters and arguments of steps, each with its path."""
    faults: tuple[str, ...]
    """Why it cannot run at all: names, references, conditions, cycles."""

    @property
    def num_steps(self) -> int:
        """How many steps there are; those of a ForEach's body count once."""
        return sum(self.types.values())

    @property
    def num_unchecked(self) -> int:
        """How many steps are of a type that is not known here."""
        return sum(len(steps) for steps in self.unknown_types.values())

    def lines(self, definition: Definition) -> list[str]:
        """The summary, then what is unknown, then what would be refused."""
        steps = ", ".join(f"{number} {kind}" for kind, number in self.types.items())
        said = [
            f"{definition.source}: {count(self.num_steps, 'step')}"
            + (f" ({steps})" if steps else "")
            + f", {count(len(definition.parameters), 'parameter')}."
        ]
        said += self.notes()
        if self.unknown_fields:
            said.append("Fields that are not known here, kept as they are:")
            said += _some(list(self.unknown_fields))
        return [printable(line) for line in said] + self.problems()

    def notes(self) -> list[str]:
        """Step types and functions that are not known here, with the word for one that may be meant; and what ends."""
        said: list[str] = []
        for what, given, known in (
            ("Step types that are not known here, kept as they are and not checked", self.unknown_types, STEP_TYPES),
            (
                "Functions that are not known here, kept as they are and not worked out",
                self.unknown_functions,
                FUNCTIONS,
            ),
        ):
            if given:
                said.append(f"{what}:")
                said += _some([f"{name}: {', '.join(steps)}{_meant(name, known)}" for name, steps in given.items()])
        if self.endings:
            said += ["AWS is taking out of service:", *_some(list(self.endings))]
        return [printable(line) for line in said]

    def problems(self) -> list[str]:
        """The lines about what would be refused; [] if no refusal is known."""
        said: list[str] = []
        if self.faults:
            said += ["It cannot run:", *_some(list(self.faults))]
        if self.refused:
            said += ["The service would refuse:", *_some(list(self.refused))]
        return [printable(line) for line in said]

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the same names."""
        return {
            "types": self.types,
            "unknown_types": {kind: list(steps) for kind, steps in self.unknown_types.items()},
            "unknown_functions": {name: list(steps) for name, steps in self.unknown_functions.items()},
            "unknown_fields": list(self.unknown_fields),
            "endings": list(self.endings),
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
    functions: dict[str, list[str]] = {}
    for step in steps:
        with suppress(UserError):  # a reference that cannot be read is among the faults
            for name in step.unknown_functions:
                functions.setdefault(name, []).append(step.name)
    return Inspection(
        types=dict(Counter(step.type for step in steps).most_common()),
        unknown_types={kind: tuple(names) for kind, names in unknown.items()},
        unknown_functions={name: tuple(names) for name, names in functions.items()},
        unknown_fields=tuple(islice(_unknown_fields(definition, steps), MOST)),
        endings=endings(definition)[:MOST],
        refused=tuple(islice(_refused(definition, steps), MOST)),
        faults=tuple(islice(_faults(definition, steps), MOST)),
    )


def warnings(definition: Definition) -> list[str]:
    """List what the service would refuse, a line for each kind with its steps; a run here may accept it."""
    kinds: dict[str, list[str]] = {}
    for line in islice(_refused(definition, definition.all_steps), MOST):
        place, _, problem = line.partition(": ")
        kinds.setdefault(problem, []).append(place)
    said = [
        f"the service would refuse {and_more(places, _MOST_PLACES)}: {problem}" for problem, places in kinds.items()
    ]
    if len(said) > _MOST_WARNINGS:
        more = f"the service would refuse more: drivetrain check {definition.source}"
        said = [*said[:_MOST_WARNINGS], more]
    return [printable(line) for line in said]


def _meant(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def _mistyped(kind: str) -> str | None:
    """The known step type that an unknown one nearly spells. `TrainingV2` may be new."""
    if kind in STEP_TYPES:
        return None
    close = get_close_matches(kind, STEP_TYPES, n=1, cutoff=0.85)
    return close[0] if close and not kind.startswith(close[0]) else None


def _some(given: list[str]) -> list[str]:
    shown = [f"    {line}" for line in given[:_MOST_SHOWN]]
    return shown + ([f"    ... and {len(given) - _MOST_SHOWN} more"] if len(given) > _MOST_SHOWN else [])


def _faults(definition: Definition, steps: tuple[StepNode, ...]) -> Iterator[str]:
    for step in steps:
        if (problem := graph.name_problem(step)) is not None:
            yield problem
    for fault in graph.faults(definition, MOST):
        yield fault.removeprefix(f"{definition.source}: ")


def _unknown_fields(definition: Definition, steps: tuple[StepNode, ...]) -> Iterator[str]:
    for field in definition.raw:
        if field not in TOP_LEVEL:
            yield field
    for step in steps:
        own = STEP_TYPES.get(step.type)
        for field in step.raw if own is not None else ():
            if field not in EVERY_STEP and own is not None and field not in own.fields:
                yield f"{step.name}: {field}"


def _refused(definition: Definition, steps: tuple[StepNode, ...]) -> Iterator[str]:
    for step in steps:
        if meant := _mistyped(step.type):
            yield f"{step.name}: there is no step type {step.type!r}. Did you mean {meant!r}?"
        if len(step.name) > quotas.MAX_STEP_NAME_CHARACTERS:
            yield f"{step.name}: the name has {len(step.name)} characters; at most {quotas.MAX_STEP_NAME_CHARACTERS}."
    for parameter in definition.parameters:
        yield from parameter_problems(parameter)
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


def parameter_problems(parameter: DefinitionParameter) -> Iterator[str]:
    """Find what the service would refuse in a parameter: text is no number here, unlike at a start.

    The default value "must be an instance matching the parameter type" (Developer Guide, Pipeline Parameters).
    """
    place = f"parameters.{parameter.name}"
    if parameter.type not in TYPES:
        yield f"{place}.Type: {parameter.type!r:.60}. {did_you_mean(parameter.type, TYPES)}"
        return
    given = {"DefaultValue": parameter.default} if "DefaultValue" in parameter.raw else {}
    given |= {f"EnumValues[{n}]": choice for n, choice in enumerate(parameter.choices)}
    for field, value in given.items():
        if not _is_instance(parameter.type, value):
            yield f"{place}.{field}: {_quoted(parameter, value)}. Allowed: {ALLOWED[parameter.type]}."
    if len(parameter.choices) > MAX_CHOICES:
        yield f"{place}.EnumValues: {len(parameter.choices)} values; at most {MAX_CHOICES}."
    if parameter.choices and parameter.default is not None and parameter.default not in parameter.choices:
        allowed = ", ".join(_quoted(parameter, choice) for choice in parameter.choices)
        yield f"{place}.DefaultValue: {_quoted(parameter, parameter.default)}. Allowed: one of EnumValues, {allowed}."


def _quoted(parameter: DefinitionParameter, value: Json) -> str:
    """A value as JSON, so that "1" is seen to be text; without what looks like a secret."""
    masked = hidden(value, (parameter.name,))
    return (
        shown(value) if masked is value and not isinstance(value, str) else json.dumps(masked, ensure_ascii=False)[:72]
    )


def _is_instance(kind: str, value: Json) -> bool:
    if kind in ("String", "Boolean"):
        return isinstance(value, str if kind == "String" else bool)
    return not isinstance(value, str) and value_of_type(kind, value) is not None
