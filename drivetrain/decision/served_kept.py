"""A look at served rows, kept with the registry of its group; and the events of what it found.

Where the evidence lies with a deployment, events go to EventBridge. Elsewhere nobody is called: pollers read the file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from drivetrain.aws.events import put_events
from drivetrain.base.errors import warn
from drivetrain.decision.served_findings import DATA_DRIFT, SOURCE, Served, looked, packed, passed, unpacked
from drivetrain.registry.evidence import FOLDER_VARIABLE, SERVED, change_evidence, place_of

if TYPE_CHECKING:
    from drivetrain.decision.served_check import Look
    from drivetrain.registry.registry import ModelVersion, Registry


def keep_look(
    registry: Registry, version: ModelVersion, look: Look, remind_days: float
) -> tuple[Sequence[Mapping[str, Any]], str]:
    """Enter a look into what is kept of its group, and send the events of findings that were not sent yet.

    Returns:
        The records of looks, this one among them; and why a drift of it is not told, in a sentence, "" where it is.

    Raises:
        InputError: what is kept is damaged, or cannot be written; EventBridge refuses an event. The look is kept then,
            and a repeated one sends it.
    """
    place, now, entry = place_of(registry, look.group, version, SERVED), time.time(), look.record()
    if place is None:
        warn("this registry has no place for findings, so none is kept")
        return [entry], ""
    made: list[Served] = []

    def enter(kept: bytes) -> bytes:
        made.append(looked(unpacked(kept, place), entry, look.findings(now), remind_days * 86_400))
        return packed(made[-1])

    change_evidence(place, enter)
    folder = os.environ.get(FOLDER_VARIABLE)
    unsent = [each for each in made[-1].findings if each.is_open and not each.is_sent]
    if folder and place.startswith(f"{folder}/") and unsent:
        put_events(SOURCE, [(each.kind, each.detail()) for each in unsent])
        sent = {each.id for each in unsent}

        def mark(kept: bytes) -> bytes:
            served = unpacked(kept, place)
            marked = [replace(each, is_sent=each.is_sent or each.id in sent) for each in served.findings]
            return packed(replace(served, findings=tuple(marked)))

        change_evidence(place, mark)
    is_open = any(each.is_open and each.kind == DATA_DRIFT for each in made[-1].findings)
    later = look.seen.get(DATA_DRIFT) and not is_open and passed(made[-1], look.day, look.version)
    return made[-1].looks, f"The drift is not told: the newer rows of {later} had none." if later else ""
