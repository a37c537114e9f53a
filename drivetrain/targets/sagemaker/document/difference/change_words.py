"""Changes as people read them: a line each, `train: epochs 20 -> 30`, and changed code in one line for all steps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import Json
from drivetrain.targets.sagemaker.document.conditions import described
from drivetrain.targets.sagemaker.document.difference import place as places
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change, Value
from drivetrain.targets.sagemaker.document.difference.entries import flags
from drivetrain.targets.sagemaker.document.difference.meaning import equal
from drivetrain.targets.sagemaker.document.difference.place import Place, Position, Segment
from drivetrain.targets.sagemaker.document.difference.value_words import MASK, arrow, hidden, short, shown

_BRANCHES = {"IfSteps": "if {} holds", "ElseSteps": "if {} does not hold"}
# The last field of a place -> the word that people use for it.
_WORDS = {
    "InstanceType": "instance",
    "InstanceCount": "instances",
    "VolumeSizeInGB": "volume in GB",
    "MaxRuntimeInSeconds": "longest run in seconds",
    "MaxWaitTimeInSeconds": "longest run with waiting, in seconds",
    "EnableManagedSpotTraining": "spot",
    "TrainingImage": "image",
    "ImageUri": "image",
    "Image": "image",
    "DisplayName": "display name",
    "Description": "description",
    "RetryPolicies": "retry policies",
    "CacheConfig": "cache",
    "DefaultValue": "default",
    "EnumValues": "choices",
    "ModelCardContent": "",  # all there is of a card
    "RightValue": "threshold",
}
# Fields of a place that tell a reader nothing which its end does not tell.
_SILENT = frozenset(
    [
        "AlgorithmSpecification",
        "AppSpecification",
        "Arguments",
        "ClusterConfig",
        "Conditions",
        "ContainerArguments",
        "ContainerEntrypoint",
        "DataSource",
        "HyperParameterTuningResourceConfig",
        "HyperParameters",
        "InferenceSpecification",
        "ProcessingOutputConfig",
        "ProcessingResources",
        "ResourceConfig",
        "S3DataSource",
        "S3Input",
        "S3Output",
        "StaticHyperParameters",
        "StoppingCondition",
        "TransformResources",
    ]
)
_FIELDS = {"CheckpointConfig": "checkpoints", "ModelCard": "model card"}
# Lists and maps with entries that the user names.
_NAMED = {
    "InputDataConfig": "channel",
    "ProcessingInputs": "input",
    "Outputs": "output",
    "Environment": "environment",
    "Tags": "tag",
    "MetricDefinitions": "metric",
    "PropertyFiles": "property file",
    "OutputParameters": "output parameter",
    "ForEachBody": "step",
}


_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


def describe_all(changes: Iterable[Change]) -> list[str]:
    """A line a change; changed code is one line, and a new step is one line with the branch in which it stands."""
    return [line for line in describe_each(changes) if line]


def describe_each(changes: Iterable[Change]) -> list[str]:
    """As `describe_all`, with an empty line for each change that another's line says."""
    given = list(changes)
    coded = list(dict.fromkeys(change.step for change in given if change.step is not None and _changes_code(change)))
    added = added_steps(given)
    branches = {change.step: change for change in given if change.place[:1] == (places.BRANCHES,)}
    lines: list[str] = []
    for change in given:
        if _changes_code(change):
            lines.append(f"code of {_listed(coded)} changed" if coded else "")
            coded = []
        elif change.place[:1] == (places.BRANCHES,) and change.step in added:
            lines.append("")  # said with the step
        elif change.step in added and len(change.place) == 2 and change.step in branches:
            lines.append(f"{describe(change)}, {_branch(branches[change.step].new)}")
        else:
            lines.append(describe(change))
    return [one_line(line) for line in lines]


def _changes_code(change: Change) -> bool:
    """Return True if a step runs other code; the same code in another place has the same hash there."""
    if change.kind != "code" or change.step is None:
        return False
    before, after = (_HASH.findall(str(value)) for value in (change.old, change.new))
    return not before or before != after


def added_steps(changes: Iterable[Change]) -> set[str | None]:
    """The names of the steps that are new."""
    return {c.step for c in changes if c.place[:1] == (places.STEPS,) and len(c.place) == 2 and c.old is ABSENT}


def describe(change: Change) -> str:
    """A change in one line; what looks like a secret by its name is not shown."""
    return one_line(_described(change))


def _described(change: Change) -> str:
    place = change.place
    old, new = (hidden(value, place) for value in (change.old, change.new))
    if old == new == MASK:
        return f"{change.step or 'definition'}: {_what(place[2:])} changed ({MASK})"
    root = place[0] if place else ""
    if root == places.STEPS and len(place) == 2:
        return _whole_step(str(place[1]), old, new)
    if root == places.BRANCHES and len(place) == 2:
        return f"{place[1]}: moved, {_branch(old)} -> {_branch(new)}"
    if root == places.PARAMETERS and len(place) == 2:
        return _whole_parameter(str(place[1]), old, new)
    if root == places.PARAMETERS:
        return f"parameter {place[1]}: {_what(place[2:])} {arrow(old, new)}"
    if root != places.STEPS:
        return f"{_what(place[1:])} {arrow(old, new)}"
    return f"{place[1]}: {_in_step(place[2:], old, new)}"


def _in_step(place: Place, old: Value, new: Value) -> str:
    field = place[-1]
    if place == ("Name",):
        return f"called {new}"
    if place[0] == "DependsOn" and len(place) == 2:
        if new is ABSENT:
            return f"no longer waits for {field}"
        now = f"waits for {field}" + (f", {_trigger(new)}" if _trigger(new) else "")
        return now if old is ABSENT else f"{now} (was: {_trigger(old) or 'if succeeded'})"
    if field == "ContainerArguments":
        return _arguments(old, new)
    if "Conditions" in place[-2:]:
        if field != "Conditions" and (old is ABSENT or new is ABSENT):
            return f"condition {_condition(new if old is ABSENT else old)} {'added' if old is ABSENT else 'removed'}"
        return f"condition {_condition(old)} -> {_condition(new)}"
    return f"{_what(place)} {arrow(old, new)}"


def _what(place: Place) -> str:
    """The words for a place below a step, a parameter or the definition."""
    last = len(place) - 1
    words: list[str] = []
    for n, segment in enumerate(place):
        if isinstance(segment, Position):
            words.append(f"{segment.index + 1} of {segment.count}" if segment.count > 1 else "")
        elif n == last and segment in _WORDS and (n == 0 or not _is_name(place, n)):
            words.append(_WORDS[segment])
        elif n != last and segment in (_NAMED | _FIELDS):
            words.append((_NAMED | _FIELDS)[segment])
        elif n == last or segment not in _SILENT:
            words.append(segment if segment.isprintable() and segment else json.dumps(segment))
    text = " ".join(word for word in words if word)
    if len(place) > 2 and place[last] == "RightValue":
        return f"threshold of {place[last - 1]}"
    return text


def _is_name(place: Place, n: int) -> bool:
    """Return True if a segment is a name of the user's, such as a variable's, rather than a field."""
    return place[n - 1] in ("Environment", "HyperParameters", "StaticHyperParameters", *_NAMED)


def _whole_step(name: str, old: Value, new: Value) -> str:
    if old is ABSENT:
        return f"{name} added ({_type(new)})"
    if new is ABSENT:
        return f"{name} removed ({_type(old)})"
    return f"{name}: another step, {_type(old)} -> {_type(new)}"


def _type(step: Value) -> str:
    return shown(step.get("Type", ABSENT)) if isinstance(step, dict) else shown(step)


def _whole_parameter(name: str, old: Value, new: Value) -> str:
    if old is not ABSENT and new is not ABSENT:
        return f"parameter {name} {arrow(old, new)}"
    given = new if old is ABSENT else old
    if not isinstance(given, dict):
        return f"parameter {name} {arrow(old, new)}"
    default = f", default {shown(hidden(given['DefaultValue'], (name,)))}" if "DefaultValue" in given else ""
    return f"parameter {name} {'added' if old is ABSENT else 'removed'} ({_type(given)}{default})"


def _branch(value: Value) -> str:
    if not isinstance(value, dict):
        return "at the top level"
    side = str(value.get("branch"))
    return _BRANCHES.get(side, side + " of {}").format(value.get("step"))


def _trigger(entry: Value) -> str:
    trigger = entry.get("Trigger") if isinstance(entry, dict) else None
    return f"if {shown(trigger).lower()}" if trigger is not None else ""


def _condition(value: Value) -> str:
    try:
        return "nothing" if value is ABSENT else short(described(value))
    except UserError:
        return shown(value)


def _arguments(old: Value, new: Value) -> str:
    """A program's arguments, by flag where both have flags."""
    before, after = (None if given is ABSENT else flags(given) for given in (old, new))
    if before is None or after is None:
        return f"arguments {arrow(old, new)}"
    parts = [
        _flag(key, before.get(key, ABSENT), after.get(key, ABSENT))
        for key in dict.fromkeys((*before, *after))
        if key not in before or key not in after or not equal(before[key], after[key])
    ]
    return "arguments " + ("; ".join(parts) if parts else "in another order")


def _flag(key: Segment, old: Value, new: Value) -> str:
    before, after = (hidden(_bare(key, value), (key,)) for value in (old, new))
    return f"{key} changed ({MASK})" if before == after else f"{key} {arrow(before, after)}".strip()


def _bare(key: Segment, entry: Value) -> Value:
    """The entry of an argument; True for a flag without values."""
    if entry is ABSENT or not isinstance(entry, list):
        return entry
    return cast("Json", True if entry == [key] else entry)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more steps" if len(names) > 6 else "")


def one_line(text: str) -> str:
    """Names may hold anything: line breaks, and what steers a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
