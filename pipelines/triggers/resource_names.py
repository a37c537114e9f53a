"""What the rules and schedules of a pipeline are called and described, and by what they are known again."""

from __future__ import annotations

import hashlib
import re

OWNER = "drivetrain:pipeline"
"""The tag of a rule that names the pipeline it starts. Schedules have no tags: their name and description tell it."""

TRIGGER = "drivetrain:trigger"

_PIPELINE_CHARACTERS = 20
_TRIGGER_CHARACTERS = 32
_HASH_CHARACTERS = 8
# What follows the pipeline's part: the trigger's, and a hash.
_REST = re.compile(rf"-(.{{1,{_TRIGGER_CHARACTERS}}})-[0-9a-f]{{{_HASH_CHARACTERS}}}")
_DESCRIBED = re.compile(r"Trigger (.+) of pipeline .+")


def name_prefix(pipeline: str) -> str:
    """How the names of all rules and schedules of a pipeline begin; others' may, too."""
    return pipeline[:_PIPELINE_CHARACTERS]


def resource_name(pipeline: str, trigger: str) -> str:
    """The name of a trigger's rule or schedule: the pipeline's beginning, the trigger's, and a hash of both.

    At most 62 characters (64 are allowed), so that it needs no other form for long names; and the hash keeps `a-b` of
    `c` apart from `b` of `c-a`.
    """
    digest = hashlib.sha256(f"{pipeline}/{trigger}".encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"{name_prefix(pipeline)}-{trigger[:_TRIGGER_CHARACTERS]}-{digest}"


def description(pipeline: str, trigger: str) -> str:
    """How a trigger's rule or schedule is described."""
    return f"Trigger {trigger} of pipeline {pipeline}"


def is_resource_name(name: str, pipeline: str, described: str) -> bool:
    """Whether `resource_name` gave the name, for a trigger of this pipeline.

    Args:
        described: the description, which tells the trigger whose name was cut.
    """
    part = trigger_part(name, pipeline)
    if part is None:
        return False
    said = _DESCRIBED.fullmatch(described)
    triggers = {part, *(() if said is None else (said[1],))}
    return name in {resource_name(pipeline, trigger) for trigger in triggers}


def is_cut_name(name: str, pipeline: str) -> bool:
    """Whether a name has the form of `resource_name` with a trigger's name that may not be whole in it."""
    return len(trigger_part(name, pipeline) or "") == _TRIGGER_CHARACTERS


def trigger_part(name: str, pipeline: str) -> str | None:
    """The beginning of the trigger's name in one that has the form of `resource_name`; None for others."""
    prefix = name_prefix(pipeline)
    found = _REST.fullmatch(name, len(prefix)) if name.startswith(prefix) else None
    return None if found is None else found[1]
