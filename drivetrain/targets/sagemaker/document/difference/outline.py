"""A definition with its steps by name, branches laid flat, and the way back.

A step's name is unique over all branches, so its own fields and the branch it stands under are two separate facts: a
step that moves into a branch stays the same step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import Json

Object = dict[str, Json]
SIDES = ("IfSteps", "ElseSteps")


@dataclass(frozen=True)
class Outline:
    """The parts of a definition.

    `steps` has each step's own fields: a Condition's Arguments are always there, without the steps in its branches.
    `branches` has, for the steps that stand under a condition, `{"step": NAME, "branch": "IfSteps"}`. Steps are None
    where they lack unique names; then Steps is a field like any other. So it is with `parameters`.
    """

    raw: Object
    fields: Object
    parameters: Object | None
    steps: Object | None
    branches: Object


def outline(definition: Mapping[str, Json] | None) -> Outline:
    """The parts of a definition; empty without one."""
    raw: Object = {"Steps": []} if definition is None else dict(definition)
    fields = dict(raw)
    parameters = _by_name(raw.get("Parameters"))
    if parameters is not None:
        fields.pop("Parameters", None)
    steps: Object | None = {}
    branches: Object = {}
    if _flatten(raw.get("Steps"), None, steps, branches):
        fields.pop("Steps", None)
    else:
        steps, branches = None, {}
    return Outline(raw, fields, parameters, steps, branches)


def assembled(parts: Outline, before: Outline) -> Object:
    """The definition of these parts; objects that are as they were in `before` keep the order of their keys.

    Raises:
        UserError: a branch that leads to no condition, or conditions that stand in each other.
    """
    made: Object = {}
    values: Object = dict(parts.fields)
    lists = {
        "Parameters": None if parts.parameters is None else list(parts.parameters.values()),
        "Steps": None if parts.steps is None else _nested(parts, before),
    }
    for key, listed in lists.items():
        # null stays null where nothing came in.
        if listed or (listed is not None and key in before.raw):
            values[key] = listed if listed or before.raw[key] is not None else None
    for key in (*before.raw, *values):
        if key in values:
            made[key] = values[key]
    return made


def _by_name(given: Json) -> Object | None:
    if given is None:
        return {}
    if not isinstance(given, list):
        return None
    found: Object = {}
    for item in given:
        name = item.get("Name") if isinstance(item, dict) else None
        if not isinstance(name, str) or name in found:
            return None
        found[name] = item
    return found


def _flatten(given: Json, branch: Json, steps: Object, branches: Object) -> bool:
    """Fill `steps` and `branches`; whether every step has a name of its own."""
    if given is None:
        return True
    if not isinstance(given, list):
        return False
    for item in given:
        name = item.get("Name") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(name, str) or name in steps:
            return False
        steps[name] = item
        if branch is not None:
            branches[name] = branch
        if item.get("Type") == "Condition":
            arguments = item.get("Arguments")
            if not isinstance(arguments, dict | None):
                return False
            steps[name] = {**item, "Arguments": {k: v for k, v in (arguments or {}).items() if k not in SIDES}}
            for side in SIDES:
                if not _flatten((arguments or {}).get(side), {"step": name, "branch": side}, steps, branches):
                    return False
    return True


def _arguments(step: Object) -> Object:
    """A Condition's arguments."""
    arguments = step.get("Arguments")
    if not isinstance(arguments, dict | None):
        raise UserError(f"condition {step.get('Name')} has Arguments that are no object.")
    return arguments or {}


def _nested(parts: Outline, before: Outline) -> Json:
    """The list of Steps; each branch in the order in which its steps were written, new ones at the end."""
    assert parts.steps is not None
    children: dict[tuple[str, str] | None, list[str]] = {}
    for name in parts.steps:
        children.setdefault(_parent(parts, name), []).append(name)
    originals = _originals(before.raw.get("Steps"))
    placed: set[str] = set()

    def build(parent: tuple[str, str] | None) -> list[Json]:
        return [one(name) for name in children.get(parent, [])]

    def one(name: str) -> Json:
        placed.add(name)
        assert parts.steps is not None
        own = cast("Object", parts.steps[name])
        if own.get("Type") != "Condition":
            return own
        return _with_branches(own, {side: build((name, side)) for side in SIDES}, originals.get(name))

    built = build(None)
    if lost := [name for name in parts.steps if name not in placed]:
        raise UserError(f"the steps {', '.join(lost)} stand in each other's branches. Move one of them out.")
    return built


def _parent(parts: Outline, name: str) -> tuple[str, str] | None:
    branch = parts.branches.get(name)
    if branch is None:
        return None
    assert parts.steps is not None
    step, side = (branch.get("step"), branch.get("branch")) if isinstance(branch, dict) else (None, None)
    above = parts.steps.get(step) if isinstance(step, str) else None
    if not isinstance(step, str) or side not in SIDES or not isinstance(above, dict):
        raise UserError(f"step {name} is to stand in a branch of {step!r}, which is no step here.")
    if above.get("Type") != "Condition":
        raise UserError(f"step {name} is to stand in a branch of {step!r}, which is no condition.")
    return step, str(side)


def _with_branches(own: Object, lists: dict[str, list[Json]], original: Object | None) -> Json:
    """A Condition with its steps where its branches were written."""
    arguments = _arguments(own)
    order = _arguments(original) if original is not None else {}
    made: Object = {}
    for key in dict.fromkeys((*(key for key in order if key in arguments or key in SIDES), *arguments, *SIDES)):
        if key not in SIDES:
            made[key] = arguments[key]
        elif lists[key] or key in order:
            made[key] = lists[key] if lists[key] or not order or order[key] is not None else None
    written: Object = {key: own[key] for key in dict.fromkeys((*(original or ()), *own)) if key in own}
    if made or order or original is None:
        return {**written, "Arguments": made}
    # Where there never was a word in it, it stays as it was: empty, null or left out.
    return {
        key: original.get(key) if key == "Arguments" else item
        for key, item in written.items()
        if key != "Arguments" or key in original
    }


def _originals(given: Json) -> dict[str, Object]:
    """Name -> the Condition as it was written."""
    found: dict[str, Object] = {}
    for item in given if isinstance(given, list) else ():
        arguments = item.get("Arguments") if isinstance(item, dict) and item.get("Type") == "Condition" else 0
        if isinstance(item, dict) and isinstance(arguments, dict | None):
            found[str(item.get("Name"))] = item
            for side in SIDES:
                found |= _originals((arguments or {}).get(side))
    return found
