"""What was found in a definition, as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivetrain.pipelines.report.words import count, printable

if TYPE_CHECKING:
    from drivetrain.pipelines.definition.document import Definition
    from drivetrain.pipelines.studio.inspection import Inspection

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
    if found.unknown_types:
        said.append("Step types that are not known here, kept as they are:")
        said += _some([f"{kind}: {', '.join(names)}" for kind, names in found.unknown_types.items()])
    if found.unknown_fields:
        said.append("Fields that are not known here, kept as they are:")
        said += _some(list(found.unknown_fields))
    return [printable(line) for line in said] + problems(found)


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
