"""What was found in a definition, as people read it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from drivetrain.base.formatting import count, printable
from drivetrain.targets.sagemaker.document.expressions import FUNCTIONS
from drivetrain.targets.sagemaker.document.step_types import STEP_TYPES

if TYPE_CHECKING:
    from drivetrain.studio.inspection import Inspection
    from drivetrain.targets.sagemaker.document.document import Definition

_MOST_SHOWN = 20


def lines(definition: Definition, found: Inspection) -> list[str]:
    """The summary, then what is unknown, then what would be refused."""
    steps = ", ".join(f"{number} {kind}" for kind, number in found.types.items())
    total = sum(found.types.values())
    said = [
        f"{definition.source}: {count(total, 'step')}"
        + (f" ({steps})" if steps else "")
        + f", {count(len(definition.parameters), 'parameter')}."
    ]
    said += notes(found)
    if found.unknown_fields:
        said.append("Fields that are not known here, kept as they are:")
        said += _some(list(found.unknown_fields))
    return [printable(line) for line in said] + problems(found)


def notes(found: Inspection) -> list[str]:
    """Step types and functions that are not known here, with the word for one that may be meant; and what ends."""
    said: list[str] = []
    for what, given, known in (
        ("Step types that are not known here, kept as they are and not checked", found.unknown_types, STEP_TYPES),
        ("Functions that are not known here, kept as they are and not worked out", found.unknown_functions, FUNCTIONS),
    ):
        if given:
            said.append(f"{what}:")
            said += _some([f"{name}: {', '.join(steps)}{_meant(name, known)}" for name, steps in given.items()])
    if found.endings:
        said += ["AWS is taking out of service:", *_some(list(found.endings))]
    return [printable(line) for line in said]


def _meant(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def problems(found: Inspection) -> list[str]:
    """What would be refused; [] when nothing is known of it."""
    said: list[str] = []
    if found.faults:
        said += ["It cannot run:", *_some(list(found.faults))]
    if found.refused:
        said += ["The service would refuse:", *_some(list(found.refused))]
    return [printable(line) for line in said]


def _some(given: list[str]) -> list[str]:
    shown = [f"    {line}" for line in given[:_MOST_SHOWN]]
    return shown + ([f"    ... and {len(given) - _MOST_SHOWN} more"] if len(given) > _MOST_SHOWN else [])
