"""Steps of a definition that look at a source: they find its version out, which is an input of those that read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from drivetrain.base.json_text import list_in, object_in
from drivetrain.spec.resources import SOURCE_VERSION
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.document.expressions import references
from drivetrain.targets.sagemaker.document.graph import dependencies


def is_look(arguments: Mapping[str, Any]) -> bool:
    """True where a job of these arguments looks at a source."""
    return runs_program(arguments, SOURCE_VERSION)


def runs_program(arguments: Mapping[str, Any], target: str) -> bool:
    """True where a job of these arguments runs a component."""
    return target in _words(arguments)


def source_of(arguments: Mapping[str, Any]) -> Any:
    """The source that a look looks at; None if a job of these arguments is no look."""
    words = _words(arguments)
    return words[words.index("--source") + 1] if is_look(arguments) else None


def readers(definition: Definition) -> dict[str, set[str]]:
    """Look -> the steps that need its version; a ForEach for those of its body."""
    needs = dependencies(definition)
    return {
        look.name: {name for name, needed in needs.items() if look.name in needed}
        for look in definition.walk()
        if is_look(look.arguments)
    }


def looks_of(definition: Definition, names: Iterable[str]) -> frozenset[str]:
    """The looks at what the named steps read."""
    chosen = frozenset(names)
    return frozenset(look for look, those in readers(definition).items() if those & chosen)


def steps_told_in(step: StepNode, group: str, name: str) -> list[str]:
    """The steps to which one of a step's arguments refers, in order."""
    node = object_in(step.arguments, group).get(name)
    return [get.step for get in references(node) if get.step is not None]


def _words(arguments: Mapping[str, Any]) -> list[Any]:
    return list_in(object_in(arguments, "AppSpecification"), "ContainerArguments")
