"""Steps of Studio that follow one of the code's: renamed, copied or split in Studio, they are kept as that step and
what Studio changed of it, so that they have its code, role and places wherever the pipeline is deployed.

    - place: steps.train.Name          # train is called train-nightly; what refers to it does, too
      was: train
      now: train-nightly
    - place: steps.train-long          # a copy of train ...
      like: train
    - place: steps.train-long.Arguments.HyperParameters.epochs    # ... with other epochs
      was: "20"
      now: "90"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from drivetrain.base.json_text import Json
from drivetrain.studio.generated import carried, generated, renewed
from drivetrain.targets.sagemaker.compile import Generated
from drivetrain.targets.sagemaker.document.difference import place as places
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change, Value
from drivetrain.targets.sagemaker.document.difference.difference import STEP, differing
from drivetrain.targets.sagemaker.document.difference.editing import NoSuchPlaceError, find, put, spot_at
from drivetrain.targets.sagemaker.document.difference.entries import Spot, inside, view
from drivetrain.targets.sagemaker.document.difference.outline import Object, Outline
from drivetrain.targets.sagemaker.document.difference.place import Place

# Of two steps that share so many of their values one was made from the other, as git tells a copied file.
_LEAST_SHARED = 0.5
# What differs in a generated text between two deployments, and two versions of the code.
_VARYING = (
    re.compile(r"^s3://[^/]+(?:/.*?)?/(?=[^/]+/(?:code|data|steps|checkpoints)/)"),
    re.compile(r"(?<=/code/).*"),
    re.compile(r"(?<=:role/).*"),
    re.compile(r"^/opt/ml/.*"),
    re.compile(r"[0-9a-f]{16,}|[0-9]{12}|[a-z]{2}(?:-[a-z]+)+-[0-9]"),
)

_PROGRAM = re.compile(r"[A-Za-z_][\w.]*:[\w./-]+")


@dataclass(frozen=True)
class Copy(Change):
    """A step that is added as another one of the code is; later edits say what differs."""

    like: str = ""
    """The name of that step, which stands beside its own."""

    def made(self, code: Outline) -> Object | None:
        """The step; None where the code has none of that name."""
        return _called(find(code, (*self.place[:-1], self.like)), str(self.place[-1]))


def copy_of(place: Place, like: str) -> Copy:
    """The edit that adds such a step."""
    return Copy(place, ABSENT, {"Name": place[-1]}, "step", like)


def is_renaming(edit: Change) -> bool:
    """Return True if an edit renames a step."""
    whole = edit.place[0] == places.STEPS and len(edit.place) == 3 and edit.place[2] == "Name"
    return whole and isinstance(edit.old, str) and isinstance(edit.new, str)


def follows(edit: Change) -> bool:
    """Return True if an edit makes a step follow one of the code's."""
    return isinstance(edit, Copy) or is_renaming(edit)


def new_name(edit: Change) -> str:
    """The name of the step that follows one of the code's."""
    return str(edit.place[-1] if isinstance(edit, Copy) else edit.new)


def renamed(parts: Outline, old: str, new: str) -> Outline:
    """The same with a step, and all that refers to it, under another name.

    Raises:
        NoSuchPlaceError: there is no such step, or one that has the new name.
    """
    steps = parts.steps or {}
    if old not in steps or new in steps:
        place = (places.STEPS, old, "Name")
        raise NoSuchPlaceError(place, 2, "is not there" if old not in steps else f"cannot be {new}, which is there")
    names = {name: new if name == old else name for name in steps}
    made: Object = {names[name]: _referring(step, old, new) for name, step in steps.items()}
    made[new] = {**cast("Object", made[new]), "Name": new}
    branches: Object = {
        names[name]: {**branch, "step": new} if isinstance(branch, dict) and branch.get("step") == old else branch
        for name, branch in parts.branches.items()
    }
    return replace(parts, steps=made, branches=branches)


def follow(
    code: Outline, merged: Outline, before: Outline | None, kept: tuple[Change, ...]
) -> tuple[list[Change], Outline, Outline]:
    """The edits by which steps of Studio follow steps of the code.

    Args:
        code: what the code alone gives.
        merged: the code with what was edited.
        before: what apply wrote last, from which Studio's new steps were made.
        kept: the edits until now, whose steps follow what they follow already.

    Returns:
        The edits, the code with them, and what was merged with what is generated now in the steps that are new.
    """
    if code.steps is None or merged.steps is None:
        return [], code, merged
    again = _again(kept, code, merged)
    known = {new_name(edit) for edit in again}
    gone = {*code.steps} - {*merged.steps} - {str(edit.place[1]) for edit in again if is_renaming(edit)}
    fresh: list[Change] = []
    for name in merged.steps:
        place = (places.STEPS, name)
        origin = None if name in code.steps or name in known else _origin(merged.steps[name], place, code, before)
        if origin in gone:
            gone.remove(origin)
            fresh.append(Change((places.STEPS, origin, "Name"), origin, name, "text"))
        elif origin is not None and any(generated(code.steps[origin])):
            fresh.append(copy_of((places.STEPS, name), origin))
    # A copy is made of the code's step; what is renamed after it, is so in the copy, too.
    edits = sorted([*again, *fresh], key=is_renaming)
    parts = code
    for edit in edits:
        parts = laid(edit, parts, code)
    for edit in fresh:
        merged = put(merged, (places.STEPS, new_name(edit)), _as_now(edit, parts, merged, before))
    return edits, parts, merged


def laid(edit: Change, parts: Outline, code: Outline) -> Outline:
    """The parts with a step copied or renamed.

    Raises:
        NoSuchPlaceError: the code has no such step.
    """
    if not isinstance(edit, Copy):
        return renamed(parts, str(edit.place[1]), str(edit.new))
    made = edit.made(code if len(edit.place) == 2 else parts)
    if made is None:
        raise NoSuchPlaceError((*edit.place[:-1], edit.like), len(edit.place), "is not there")
    return put(parts, edit.place, made)


def in_loop(change: Change, code: Outline, before: Outline | None) -> tuple[Change, ...]:
    """The edits of a step that is added to a loop, where it follows one that stands there; else the change itself."""
    copy = None
    if change.old is ABSENT and len(change.place) > 2 and spot_at(code, change.place).step:
        copy = copied(change.place, change.new, code, before)
    made = None if copy is None else copy.made(code)
    if copy is None or made is None:
        return (change,)
    step = brought_up(change.new, made, before)
    return (copy, *differing(cast("Json", made), step, change.place, STEP))


def copied(place: Place, step: Value, code: Outline, before: Outline | None = None) -> Copy | None:
    """The edit by which a step follows the one of the code that it was made from."""
    origin = _origin(step, place, code, before)
    is_followed = origin is not None and any(generated(_beside(place, code)[origin]))
    return copy_of(place, origin) if is_followed and origin is not None else None


def brought_up(step: Value, made: Value, before: Outline | None = None) -> Json:
    """A step with what is generated now in what it was made from, for what was generated then.

    That is what apply wrote `before`; of a step that an earlier version kept, what is alike but for hashes and names of
    deployments.
    """
    texts = set(_texts(list((before.steps or {}).values()))) if before is not None else set[str]()

    def follows(value: Value, text: Generated) -> bool:
        if before is not None:
            return value == text or value in texts
        return not isinstance(value, str) or _shape(value) == _shape(text)

    return cast("Json", renewed(step, made, STEP, follows))


def _again(kept: Iterable[Change], code: Outline, merged: Outline) -> list[Change]:
    """The edits of before by which a step that is still there follows one that is still there."""
    steps, there = code.steps or {}, merged.steps or {}
    found: list[Change] = []
    for edit in kept:
        if isinstance(edit, Copy):
            if len(edit.place) == 2 and edit.like in steps and new_name(edit) in there:
                found.append(edit)
        elif is_renaming(edit) and edit.old in steps and edit.old not in there and edit.new in there:
            found.append(edit)
    return [edit for edit in found if new_name(edit) not in steps]


def _as_now(edit: Change, parts: Outline, merged: Outline, before: Outline | None) -> Json:
    """A new step of Studio, as what it follows is now, with what Studio changed of it."""
    name, origin = new_name(edit), edit.like if isinstance(edit, Copy) else str(edit.old)
    step = (merged.steps or {})[name]
    base = None if before is None else (before.steps or {}).get(origin)
    if base is None:
        return brought_up(step, (parts.steps or {})[name], before)
    made = parts
    for change in differing(_called(base, name), step, (places.STEPS, name), STEP):
        try:
            here = find(made, change.place)
            new = carried(change.new, change.old, here, spot_at(made, change.place))
            made = put(made, change.place, new)
        except NoSuchPlaceError:  # the code has changed around it: what Studio has is kept as it is
            return step
    return (made.steps or {})[name]


def _beside(place: Place, parts: Outline) -> Mapping[str, Json]:
    """The steps beside a place: all but those of loops, or those of its loop."""
    if len(place) == 2:
        return parts.steps or {}
    try:
        seen = view(cast("Json", find(parts, place[:-1])), spot_at(parts, place[:-1]))
    except NoSuchPlaceError:
        return {}
    return {} if seen is None else {str(name): step for name, step in seen.entries.items()}


def _origin(step: Value, place: Place, code: Outline, before: Outline | None) -> str | None:
    """The step of the code that shares most values with this one, and runs its program if one does; None where no one
    shares enough."""
    best, most = None, (False, 0.0)
    own = dict(_leaves(cast("Json", step), STEP))
    there: Mapping[str, Json] = {} if before is None else _beside(place, before)
    for name, written in _beside(place, code).items():
        seen = there.get(name, written)
        if not isinstance(step, dict) or not isinstance(seen, dict) or step.get("Type") != seen.get("Type"):
            continue
        leaves = dict(_leaves(seen, STEP))
        shared = sum(place in own and own[place] == value for place, value in leaves.items())
        share = shared / max(len(own), len(leaves), 1)
        likeness = (_programs(own) == _programs(leaves), share)
        if share >= _LEAST_SHARED and likeness > most:
            best, most = name, likeness
    return best


def _programs(leaves: Mapping[tuple[str, ...], Json]) -> set[str]:
    """The program that a job runs, `module:function` or `script:path`: its code is that of a step with the same one."""
    words = (str(word) for place, word in leaves.items() if "ContainerArguments" in place)
    return {word for word in words if _PROGRAM.fullmatch(word)}


def _leaves(value: Json, spot: Spot, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
    """The single values of a step by their names, but for its own name and type."""
    seen = view(value, spot) if isinstance(value, dict | list) else None
    if seen is not None:
        for key, item in seen.entries.items():
            if place or key not in ("Name", "Type"):
                yield from _leaves(item, inside(spot, seen, key), (*place, str(key)))
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _leaves(item, Spot("", of_service=False), (*place, str(key)))
    else:
        yield place, _shape(value) if isinstance(value, str) else value


def _shape(text: str) -> str:
    """A text without what differs between deployments and versions of the code."""
    for varying in _VARYING:
        text = varying.sub("#", text)
    return text


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _called(step: Value, name: str) -> Any:
    return {**step, "Name": name} if isinstance(step, dict) else None


def _referring(value: Json, old: str, new: str) -> Json:
    """A step, or a part of one, that refers to another step by its new name."""
    if isinstance(value, list):
        return [_referring(item, old, new) for item in value]
    if not isinstance(value, dict):
        return value
    made: Object = {}
    for key, item in value.items():
        if key == "Get" and isinstance(item, str) and len(value) == 1:
            made[key] = _reference(item, old, new)
        elif key == "DependsOn" and isinstance(item, list):
            made[key] = [_edge(entry, old, new) for entry in item]
        else:
            made[key] = _referring(item, old, new)
    return made


def _reference(text: str, old: str, new: str) -> str:
    found = re.sub(rf"^(Steps|IterationOutput)\.{re.escape(old)}(?=[.\[]|$)", lambda m: f"{m[1]}.{new}", text)
    found = re.sub(rf"(IterationOutputs\[[^\]]*\])\.{re.escape(old)}(?=[.\[]|$)", lambda m: f"{m[1]}.{new}", found)
    return text if found == text else found


def _edge(entry: Json, old: str, new: str) -> Json:
    if isinstance(entry, dict):
        return {**entry, "Step": new} if entry.get("Step") == old else entry
    return new if entry == old else entry
