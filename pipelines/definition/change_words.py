"""Changes as people read them: a line each, `train: epochs 20 -> 30`, and changed code in one line for all steps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

from drivetrain.pipelines.definition import place as places
from drivetrain.pipelines.definition.change import ABSENT, Change, Value
from drivetrain.pipelines.definition.conditions import described, expression_text
from drivetrain.pipelines.definition.entries import flags
from drivetrain.pipelines.definition.json_text import Json
from drivetrain.pipelines.definition.meaning import equal, is_expression
from drivetrain.pipelines.definition.place import Place, Position, Segment
from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.secret_names import looks_secret

MASK = "***"
_MAX_SHOWN = 72
_MOST_LEAVES = 3
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
# Lists and maps whose entries have names of the user's.
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


def describe_all(changes: Iterable[Change]) -> list[str]:
    """A line a change; changed code is one line, and a new step is one line with the branch in which it stands."""
    given = list(changes)
    coded = list(dict.fromkeys(change.step for change in given if change.kind == "code" and change.step is not None))
    added = added_steps(given)
    branches = {change.step: change for change in given if change.place[:1] == (places.BRANCHES,)}
    lines: list[str] = []
    for change in given:
        if change.kind == "code" and change.step is not None:
            if coded:
                lines.append(f"code of {_listed(coded)} changed")
                coded = []
        elif change.place[:1] == (places.BRANCHES,) and change.step in added:
            continue  # said with the step
        elif change.step in added and len(change.place) == 2 and change.step in branches:
            lines.append(f"{describe(change)}, {_branch(branches[change.step].new)}")
        else:
            lines.append(describe(change))
    return [_one_line(line) for line in lines]


def added_steps(changes: Iterable[Change]) -> set[str | None]:
    """The names of the steps that are new."""
    return {c.step for c in changes if c.place[:1] == (places.STEPS,) and len(c.place) == 2 and c.old is ABSENT}


def describe(change: Change) -> str:
    """A change in one line; what looks like a secret by its name is not shown."""
    return _one_line(_described(change))


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
        return f"parameter {place[1]}: {_what(place[2:])} {_arrow(old, new)}"
    if root != places.STEPS:
        return f"{_what(place[1:])} {_arrow(old, new)}"
    return f"{place[1]}: {_in_step(place[2:], old, new)}"


def hidden(value: Any, place: Place) -> Any:
    """The value, or MASK for text that looks like a secret by the name of its place; an ARN only names one."""
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""
    return MASK if is_text and looks_secret(name_of(place)) and not str(value).startswith("arn:") else value


def name_of(place: Place) -> str:
    """The name under which people know what stands at a place: a variable's, a flag's, a parameter's."""
    named = place[1:2] if place[:1] == (places.PARAMETERS,) else place[-1:]
    return named[0] if named and isinstance(named[0], str) else ""


def shown(value: Any) -> str:
    """A value in a few words: text as it is, an expression by what it refers to, an object by its keys."""
    given: Value = value
    if given is ABSENT:
        return "nothing"
    if isinstance(given, str):
        return _short(given if given and given.isprintable() and given == given.strip() else json.dumps(given))
    if isinstance(given, dict):
        if is_expression(given):
            return _short(expression_text(given))
        return _short("{" + ", ".join(str(key) for key in given) + "}")
    if isinstance(given, list) and any(isinstance(item, dict) and not is_expression(item) for item in given):
        return f"a list of {len(given)}"
    if isinstance(given, list):
        before = ("", *given)
        return _short("[" + ", ".join(_token(item, flag) for item, flag in zip(given, before, strict=False)) + "]")
    return json.dumps(given)


def _in_step(place: Place, old: Value, new: Value) -> str:
    field = place[-1]
    if place[0] == "DependsOn" and len(place) == 2:
        if new is ABSENT:
            return f"no longer waits for {field}"
        now = f"waits for {field}" + (f", {_trigger(new)}" if _trigger(new) else "")
        return now if old is ABSENT else f"{now} (was: {_trigger(old) or 'if succeeded'})"
    if field == "ContainerArguments":
        return _arguments(old, new)
    if len(place) > 1 and place[-2] == "Conditions" and (old is ABSENT or new is ABSENT):
        return f"condition {_condition(new if old is ABSENT else old)} {'added' if old is ABSENT else 'removed'}"
    if field == "Conditions":
        return f"condition {_condition(old)} -> {_condition(new)}"
    if len(place) > 1 and place[-2] == "Conditions":
        return f"condition {_condition(old)} -> {_condition(new)}"
    return f"{_what(place)} {_arrow(old, new)}"


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
    """Whether a segment is a name of the user's, such as a variable's, rather than a field."""
    return place[n - 1] in ("Environment", "HyperParameters", "StaticHyperParameters", *_NAMED)


def _arrow(old: Value, new: Value) -> str:
    if old is ABSENT:
        return f"added: {shown(new)}" if not isinstance(new, dict) or is_expression(new) else "added"
    if new is ABSENT:
        return f"removed (was {shown(old)})" if not isinstance(old, dict) or is_expression(old) else "removed"
    if (within := _within_json(old, new)) is not None:
        return within
    before, after = shown(old), shown(new)
    if before == after:  # text against number, or a difference beyond what is shown
        before, after = _around(json.dumps(old, ensure_ascii=False), json.dumps(new, ensure_ascii=False))
    return f"{before} -> {after}"


def _within_json(old: Value, new: Value) -> str | None:
    """What differs between two objects that are written as text, such as a model's card: the first of it."""
    if not (isinstance(old, str) and isinstance(new, str) and old[:1] == new[:1] == "{"):
        return None
    try:
        before, after = json.loads(old), json.loads(new)
    except (ValueError, RecursionError):
        return None
    found = list(islice(_leaves(before, after, ""), _MOST_LEAVES + 1))
    if not found or len(old) + len(new) <= _MAX_SHOWN:
        return None
    parts = [f"{name} {shown(was)} -> {shown(now)}".strip() for name, was, now in found[:_MOST_LEAVES]]
    return "; ".join(parts) + ("; ..." if len(found) > _MOST_LEAVES else "")


def _leaves(old: Value, new: Value, name: str) -> Iterator[tuple[str, Value, Value]]:
    """Name, old and new of what differs in two values; an entry of a list is named as it names itself."""
    if isinstance(old, dict) and isinstance(new, dict):
        called = old.get("name")
        for key in dict.fromkeys((*old, *new)):
            inner = called if isinstance(called, str) and key == "value" else key
            yield from _leaves(old.get(key, ABSENT), new.get(key, ABSENT), inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for one, other in zip(old, new, strict=True):
            yield from _leaves(one, other, name)
    elif old is ABSENT or new is ABSENT or not equal(old, new):
        yield name, old, new


def _around(old: str, new: str) -> tuple[str, str]:
    """The part of two long texts in which they differ."""
    if max(len(old), len(new)) <= _MAX_SHOWN:
        return old, new
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, start - 12)
    dots = "..." if start else ""
    return f"{dots}{_short(old[start:])}", f"{dots}{_short(new[start:])}"


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
        return f"parameter {name} {_arrow(old, new)}"
    given = new if old is ABSENT else old
    if not isinstance(given, dict):
        return f"parameter {name} {_arrow(old, new)}"
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
        return "nothing" if value is ABSENT else _short(described(value))
    except UserError:
        return shown(value)


def _arguments(old: Value, new: Value) -> str:
    """A program's arguments, by flag where both have flags."""
    before, after = (None if given is ABSENT else flags(given) for given in (old, new))
    if before is None or after is None:
        return f"arguments {_arrow(old, new)}"
    parts = [
        _flag(key, before.get(key, ABSENT), after.get(key, ABSENT))
        for key in dict.fromkeys((*before, *after))
        if key not in before or key not in after or not equal(before[key], after[key])
    ]
    return "arguments " + ("; ".join(parts) if parts else "in another order")


def _flag(key: Segment, old: Value, new: Value) -> str:
    before, after = (hidden(_bare(key, value), (key,)) for value in (old, new))
    return f"{key} changed ({MASK})" if before == after else f"{key} {_arrow(before, after)}".strip()


def _token(item: Json, flag: Json) -> str:
    """One of a list of arguments; `flag` is what stands before it."""
    own, equals, _ = item.partition("=") if isinstance(item, str) and item.startswith("-") else ("", "", "")
    if equals and looks_secret(own):
        return f"{own}={MASK}"
    is_value = isinstance(flag, str) and flag.startswith("-") and not own
    return shown(hidden(item, (flag,))) if is_value and isinstance(flag, str) else shown(item)


def _bare(key: Segment, entry: Value) -> Value:
    """What follows a flag; nothing but the flag itself is true."""
    if entry is ABSENT or not isinstance(entry, list):
        return entry
    return cast("Json", True if entry == [key] else entry)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more steps" if len(names) > 6 else "")


def _one_line(text: str) -> str:
    """Names may hold anything: line breaks, and what steers a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."
