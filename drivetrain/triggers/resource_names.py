"""Names and descriptions of a pipeline's rules and schedules, by which they are recognised later."""

from __future__ import annotations

import hashlib
import re

OWNER = "drivetrain:pipeline"
"""The tag of a rule that names the pipeline it starts. Schedules have no tags: their name and description tell it."""

TRIGGER = "drivetrain:trigger"

_PIPELINE_CHARACTERS = 20
_TRIGGER_CHARACTERS = 32
_HASH_CHARACTERS = 8
# No pipeline's name has one of these in it (`[a-zA-Z0-9](-*[a-zA-Z0-9])*`), so no prefix begins as another does.
_DELIMITER = "_"
_CUT = "."
# What follows the prefix: the trigger's part, and a hash. Names of triggers have no delimiter in them either.
_REST = re.compile(rf"([^{_DELIMITER}]{{1,{_TRIGGER_CHARACTERS}}})-[0-9a-f]{{{_HASH_CHARACTERS}}}")
_DESCRIBED = re.compile(r"Trigger (.+) of pipeline .+")


def name_prefix(pipeline: str) -> str:
    """How the names of all rules and schedules of a pipeline begin, and those of no other: a policy may end it by `*`.

    A name that is too long is cut, with its hash in place of the rest; at most 21 characters.
    """
    if len(pipeline) <= _PIPELINE_CHARACTERS:
        return f"{pipeline}{_DELIMITER}"
    kept = pipeline[: _PIPELINE_CHARACTERS - _HASH_CHARACTERS - 1]
    return f"{kept}{_CUT}{_digest(pipeline)}{_DELIMITER}"


def resource_name(pipeline: str, trigger: str) -> str:
    """The name of a trigger's rule or schedule: the pipeline's prefix, the trigger's beginning, and a hash of both.

    At most 62 characters (64 are allowed), so that it needs no other form for long names.
    """
    return f"{name_prefix(pipeline)}{trigger[:_TRIGGER_CHARACTERS]}-{_digest(f'{pipeline}/{trigger}')}"


def description(pipeline: str, trigger: str) -> str:
    """How a trigger's rule or schedule is described."""
    return f"Trigger {trigger} of pipeline {pipeline}"


def is_resource_name(name: str, pipeline: str, described: str) -> bool:
    """Return True if `resource_name` made the name, for a trigger of this pipeline.

    Args:
        described: the description, which tells the trigger whose name was cut.
    """
    part = trigger_part(name, pipeline)
    if part is None:
        return False
    said = _DESCRIBED.fullmatch(described)
    triggers = {part, *(() if said is None else (said[1],))}
    return any(name == resource_name(pipeline, each) for each in triggers)


def is_cut_name(name: str, pipeline: str) -> bool:
    """Return True if a name has the form of `resource_name` and may hold a trigger's name cut short."""
    return len(trigger_part(name, pipeline) or "") == _TRIGGER_CHARACTERS


def trigger_part(name: str, pipeline: str) -> str | None:
    """The beginning of the trigger's name in one that has the form of `resource_name`; None for others."""
    prefix = name_prefix(pipeline)
    found = _REST.fullmatch(name, len(prefix)) if name.startswith(prefix) else None
    return None if found is None else found[1]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARACTERS]
