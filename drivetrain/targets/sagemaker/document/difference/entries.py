"""A value of a definition as named entries, so that lists are compared and edited by name.

    view([{"ChannelName": "train", ...}, ...], Spot("InputDataConfig")).entries["train"]

Lists of the service are keyed by their names (ChannelName, OutputName, ...), DependsOn by step, conditions by what they
compare, the arguments of a program by flag, containers by position. A list whose entries have no unique name is one
value. `assembled` is the inverse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from drivetrain.base.json_text import Json
from drivetrain.targets.sagemaker.document.conditions import expression_text
from drivetrain.targets.sagemaker.document.difference.meaning import COLLECTIONS, EDGE
from drivetrain.targets.sagemaker.document.difference.place import Position, Segment
from drivetrain.targets.sagemaker.document.expressions import is_expression
from drivetrain.targets.sagemaker.document.step_types import step_type

# Lists that the service reads by name, so that their order says nothing: field -> the member that names an entry.
_NAMED = {
    "AutoParameters": "Name",
    "CategoricalParameterRanges": "Name",
    "CollectionConfigurations": "CollectionName",
    "ContinuousParameterRanges": "Name",
    "DebugRuleConfigurations": "RuleConfigurationName",
    "ForEachBody": "Name",
    "InputDataConfig": "ChannelName",
    "InstanceGroups": "InstanceGroupName",
    "IntegerParameterRanges": "Name",
    "MetricDefinitions": "Name",
    "OutputParameters": "OutputName",
    "Outputs": "OutputName",
    "Parameters": "Name",
    "ProcessingInputs": "InputName",
    "ProductionVariants": "VariantName",
    "ProfilerRuleConfigurations": "RuleConfigurationName",
    "PropertyFiles": "PropertyFileName",
    "Tags": "Key",
    "TrainingJobDefinitions": "DefinitionName",
}
# Of lists that nobody here knows, the order may count; their entries are told apart by one of these.
_NAMES = ("Name", "ContainerHostname", "InputName", "OutputName", "ChannelName", "Key", "ParameterKey", "Id")
_BY_POSITION = frozenset(("Containers",))
_BY_FLAG = frozenset(("ContainerArguments",))
_FLAG = re.compile(r"(--?[A-Za-z][\w.-]*)(?:=.*)?", re.ASCII | re.DOTALL)
# Maps with the user's own keys, so that the service has no defaults for them.
_USERS_OWN = frozenset(("Environment", "HyperParameters", "Metadata", "StaticHyperParameters"))

_EDGES = ("list", "Step")
_OBJECT, _LIST, _FLAGS, _POSITIONS, _CONDITIONS = "object", "list", "flags", "positions", "conditions"


class Spot(NamedTuple):
    """The known facts of a value's position: its field, whether the service reads it, whether it is a whole step."""

    field: str = ""
    of_service: bool = True
    step: bool = False


class View(NamedTuple):
    """Named entries of an object or a list; `form` says how they were named, `ordered` whether their order counts."""

    form: tuple[str, str]
    entries: Mapping[Segment, Json]
    ordered: bool = False


def view(value: Json, spot: Spot) -> View | None:
    """The entries of a value; None for one that is only compared and replaced as a whole.

    So is a list where the service reads an object, and the reverse: without its entries it would say nothing, and
    nothing takes entries of the right kind.
    """
    kind = _kind(spot)
    if kind is not None and not isinstance(value, kind):
        return None
    if isinstance(value, dict):
        # With another key it is no expression, but becomes one when that key is removed.
        opaque = spot.field == EDGE or any(is_expression({key: None}) for key in value)
        return None if opaque else View((_OBJECT, ""), cast("dict[Segment, Json]", value))
    if not isinstance(value, list):
        return None
    if spot.field in _BY_FLAG:
        return _by_flag(value)
    if not value:
        return View((_LIST, ""), {})
    if spot.of_service and spot.field in _NAMED:
        return _named(value, _NAMED[spot.field], ordered=False)
    if spot.of_service and spot.field == "DependsOn":
        return _by_key([_edge(item) for item in value], value, _EDGES)
    if spot.of_service and spot.field == "Conditions":
        return _conditions(value)
    for name in _NAMES:
        if found := _named(value, name, ordered=True):
            return found
    if spot.of_service and spot.field in _BY_POSITION:
        count = len(value)
        return View((_POSITIONS, str(count)), {Position(n, count): item for n, item in enumerate(value)}, ordered=True)
    return None


def empty(spot: Spot) -> View | None:
    """The view of a collection that is not there, to which entries can be added; None for any other field."""
    kind = _kind(spot)
    return None if kind is None else View((_OBJECT if kind is dict else _LIST, ""), {})


def _kind(spot: Spot) -> type[dict[str, Any]] | type[list[Any]] | None:
    return COLLECTIONS.get(spot.field) if spot.of_service else None


def compatible(one: View, other: View) -> bool:
    """Return True if two views name their entries alike. An empty list goes with every list that has names."""
    if one.form == other.form:
        return True
    kinds = {one.form[0], other.form[0]}
    return kinds <= {_LIST, _CONDITIONS} and not (one.entries and other.entries)


def inside(spot: Spot, seen: View, key: Segment) -> Spot:
    """Return the spot of an entry of a view."""
    if seen.form == _EDGES:
        return Spot(EDGE)
    if seen.form[0] != _OBJECT or not isinstance(key, str):
        return Spot("", spot.of_service, step=spot.field == "ForEachBody" and spot.of_service)
    if spot.step and key == "Arguments":
        kind = seen.entries.get("Type")
        return Spot(key, isinstance(kind, str) and step_type(kind).is_structured)
    return Spot(key, spot.of_service and spot.field not in _USERS_OWN)


def assembled(form: tuple[str, str], entries: Mapping[Segment, Json]) -> Json:
    """The value that has these entries."""
    if form[0] == _OBJECT:
        return dict(cast("Mapping[str, Json]", entries))
    if form[0] == _FLAGS:
        return [token for key, entry in entries.items() for token in _tokens(str(key), entry)]
    return list(entries.values())


def takes(seen: View, key: Segment) -> bool:
    """Return True if a view can have an entry of that name."""
    return key in seen.entries if seen.form[0] == _POSITIONS else isinstance(key, str)


def flags(arguments: Json) -> Mapping[Segment, Json] | None:
    """Flag -> value of a program's arguments; what stands before the first flag is under ""; None if ambiguous."""
    seen = _by_flag(arguments) if isinstance(arguments, list) else None
    return None if seen is None else seen.entries


def _named(value: list[Json], member: str, *, ordered: bool) -> View | None:
    keys = [item.get(member) if isinstance(item, dict) else None for item in value]
    return _by_key(keys, value, (_LIST, member), ordered=ordered)


def _by_key(keys: list[Json], value: list[Json], form: tuple[str, str], *, ordered: bool = False) -> View | None:
    texts = [key for key in keys if isinstance(key, str)]
    if len(texts) < len(value) or len(set(texts)) < len(value):
        return None
    return View(form, dict(zip(texts, value, strict=True)), ordered)


def _edge(item: Json) -> Json:
    return item.get("Step") if isinstance(item, dict) else item


def _conditions(value: list[Json]) -> View | None:
    """Conditions by what they compare; if that is compared twice (a range), by the comparison too."""
    by_subject = _by_key([_subject(item) for item in value], value, (_CONDITIONS, "subject"))
    return by_subject or _by_key([_comparison(item) for item in value], value, (_CONDITIONS, "comparison"))


def _subject(item: Json) -> Json:
    if not isinstance(item, dict):
        return None
    for member in ("LeftValue", "QueryValue"):
        if member in item:
            return expression_text(item[member])
    return item.get("Type")


def _comparison(item: Json) -> Json:
    subject = _subject(item)
    return f"{subject} {item.get('Type')}" if isinstance(item, dict) and subject is not None else None


def _by_flag(value: list[Json]) -> View | None:
    groups: dict[Segment, list[Json]] = {}
    key = ""
    for token in value:
        if isinstance(token, str) and (flag := _FLAG.fullmatch(token)):
            key = flag[1]
            if key in groups:
                return None
            groups[key] = [token]
        else:
            groups.setdefault(key, []).append(token)
    if value and set(groups) == {""}:
        return None
    # A flag with one value is shown as that value; anything else as the tokens that stand there.
    entries = {
        key: tokens[1] if len(tokens) == 2 and tokens[0] == key and not isinstance(tokens[1], list) else tokens
        for key, tokens in groups.items()
    }
    return View((_FLAGS, ""), cast("dict[Segment, Json]", entries), ordered=True)


def _tokens(key: str, entry: Json) -> list[Json]:
    return entry if isinstance(entry, list) else [key, entry]
