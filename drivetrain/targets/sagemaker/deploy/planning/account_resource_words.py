"""Changes beside a definition as people read them: `schedule 'nightly-daily-1f2e': state ENABLED -> DISABLED`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from drivetrain.base.masking import looks_secret
from drivetrain.targets.sagemaker.deploy.planning.account_resources import PIPELINE, RULES, SCHEDULES
from drivetrain.targets.sagemaker.document.difference import change_words
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change
from drivetrain.targets.sagemaker.document.difference.place import Place
from drivetrain.targets.sagemaker.document.difference.value_words import MASK, arrow, masked, name_of

_KINDS = {RULES: "rule", SCHEDULES: "schedule"}
_WORDS = {
    "Arn": "target",
    "Description": "description",
    "DisplayName": "display name",
    "EndDate": "end",
    "EventPattern": "pattern",
    "FlexibleTimeWindow": "window",
    "Input": "input",
    "InputTemplate": "input",
    "MaxParallelExecutionSteps": "parallel steps",
    "RoleArn": "role",
    "SageMakerPipelineParameters": "parameter",
    "ScheduleExpression": "expression",
    "ScheduleExpressionTimezone": "time zone",
    "StartDate": "start",
    "State": "state",
    "Tags": "tag",
}
# What tells a reader nothing that the end of the place does not tell.
_SILENT = frozenset(("InputTransformer", "Target", "Value"))


def described(change: Change) -> str:
    """A change of a definition or of what is beside it, in one line."""
    root = change.place[0] if change.place else ""
    if root == PIPELINE:
        return differing(change)
    if root not in _KINDS:
        return change_words.describe(change)
    thing = f"{_KINDS[str(root)]} {str(change.place[1])!r}"
    if len(change.place) > 2:
        return f"{thing}: {differing(change)}"
    return f"{thing} added ({change.new})" if change.old is ABSENT else f"{thing} removed ({change.old})"


def told_by_pull(found: Sequence[Change]) -> tuple[str, ...]:
    """Lines about what others changed beside the definition, where no patch can keep it; none where nothing was."""
    if not found:
        return ()
    return (
        "Edited beside the definition; write it in the code, or apply with --discard PLACE:",
        *(f"    {described(change)}  ({change.where})" for change in found),
    )


def differing(change: Change) -> str:
    """Describe the change within the pipeline, rule or schedule that the place names; secrets are not shown."""
    root = change.place[0]
    below: Place = change.place[1:] if root == PIPELINE else change.place[2:]
    words = [_WORDS.get(str(name), str(name)) for name in below if name not in _SILENT]
    if below[:1] == ("Targets",):
        # The target's id says little where a rule has one.
        words = words[1:] if below[-1] != "Arn" else words[2:]
    if looks_secret(name_of(change.place)):
        return f"{' '.join(words)} changed ({MASK})"
    hidden = masked(change)
    line = f"{' '.join(words)} {arrow(_value(below, hidden.old), _value(below, hidden.new))}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def _value(place: Place, value: Any) -> Any:
    if place[-1] in ("StartDate", "EndDate") and isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).isoformat()
    if value == "":
        return "none"
    return json.dumps(value) if isinstance(value, dict | list) else value
