"""ForEach: its fields, the steps that it makes of its body, and what is wrong with it.

Documented (sagemaker.mlops.workflow.for_each_step, SageMaker SDK 3.27): a ForEach runs every step of its body once an
item; the step `Child` becomes `Child-0`, `Child-1`, ...; `MaxConcurrency` (1 to 50) bounds how many of these run at a
time; a literal list has 1 to 100 items, each a scalar or a reference, and a reference to a list leads to the JSON text
of one; `ForEach.CurrentItem` is the item, `ForEach.CurrentItem.field` a field of an item that is the JSON text of an
object; a body holds no Condition, Fail or ForEach; the names of its steps are unique in the definition; the selector's
Field leads into the output of one of the body's steps. An item has at most 12,800 characters (IterationContext).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from drivetrain.base import json_text
from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import Json
from drivetrain.catalog.quotas import MAX_FOREACH_CONCURRENCY, MAX_FOREACH_ITEMS, MAX_ITEM_CHARACTERS
from drivetrain.targets.sagemaker.document import descend, path_text, shown
from drivetrain.targets.sagemaker.document.document import FOR_EACH, Definition, StepNode, from_json
from drivetrain.targets.sagemaker.document.expressions import (
    Get,
    UnresolvedReference,
    is_expression,
    parse_get,
    references,
)
from drivetrain.targets.sagemaker.document.step_types import CHILD_NAME, step_type

# Of a list that is only known while the pipeline runs the service documents no bound; this one is ours.
MAX_CHILDREN = 10_000
PICKS = ("MaxBy", "MinBy")
COUNTS = ("InputItemCount", "TotalStepCount", "SucceededStepCount", "FailedStepCount", "StoppedStepCount")
MEMBERS = ("Status", *COUNTS, "IterationOutputs", "Selected")
# Its members that are about the steps of the body.
OF_THE_BODY = ("ForEachBody", "Selector")


def child_name(body_step: str, index: int) -> str:
    """The service's name of a step of the body in one iteration."""
    return f"{body_step}-{index}"


def body_names(step: StepNode, count: int) -> dict[str, str]:
    """Step of one of so many iterations -> the step of the body that it is made of."""
    return {child_name(one.name, index): one.name for index in range(count) for one in step.body}


def too_many(items: Sequence[Json], step: StepNode) -> str:
    """The message for a ForEach that makes more steps than this machine runs in one."""
    return (
        f"IterableItems has {len(items):,} items, which make {len(items) * len(step.body):,} steps. Allowed on this "
        f"machine: {MAX_CHILDREN:,}."
    )


def children(step: StepNode, index: int) -> tuple[StepNode, ...]:
    """The steps of one iteration: the body with its names, and references to them, made those of the iteration."""
    names = {body_step.name: child_name(body_step.name, index) for body_step in step.body}
    made: list[dict[str, Any]] = []
    for body_step in step.body:
        raw = cast("dict[str, Any]", _renamed(body_step.raw, names))
        raw["Name"] = names[body_step.name]
        raw["DisplayName"] = f"{body_step.display_name or body_step.name} [{index}]"
        if isinstance(needed := raw.get("DependsOn"), list):
            raw["DependsOn"] = [_renamed_dependency(one, names) for one in cast("list[Json]", needed)]
        made.append(raw)
    return from_json({"Steps": made}, f"{step.place}, iteration {index}").steps


def items_of(value: Json, *, literal: bool) -> list[Json]:
    """The items in a resolved IterableItems: a list, or the JSON text of one.

    Args:
        literal: the definition holds the list itself, so that the bounds of a literal one hold.

    Raises:
        UserError: it is neither, or an item is not allowed.
    """
    if isinstance(value, str):
        try:
            value = json_text.parse(value, "IterableItems")
        except UserError as error:
            raise UserError(f"IterableItems must be a list, or the JSON text of one: {error}") from None
    if not isinstance(value, list):
        raise UserError(f"IterableItems is {shown(value)}. Allowed: a list, or the JSON text of one.")
    if literal and not 1 <= len(value) <= MAX_FOREACH_ITEMS:
        raise UserError(f"IterableItems has {len(value)} items. Allowed: 1 to {MAX_FOREACH_ITEMS}.")
    for number, item in enumerate(value):
        if item is None:
            raise UserError(f"IterableItems[{number}] is null. Allowed: text, numbers, true, false, objects.")
        if "\0" in (text := item_text(item)) or "\\u0000" in text:
            raise UserError(f"IterableItems[{number}] holds a NUL character, which no argument can hold. Remove it.")
        if len(text) > MAX_ITEM_CHARACTERS:
            raise UserError(f"IterableItems[{number}] has {len(text):,} characters. Allowed: {MAX_ITEM_CHARACTERS:,}.")
    return value


def item_text(item: Json) -> str:
    """An item as text: objects and lists as JSON (inferred: the service's IterationContext has it as text)."""
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, separators=(",", ":"))


def current_item(item: Json, get: Get) -> Json:
    """Resolve a reference to `ForEach.CurrentItem`; give a whole item that is an object or list
    as JSON text (inferred: the service's IterationContext has items as text).

    Raises:
        UnresolvedReference: a reference to something else, or to what the item has not got.
    """
    if get.path[0] != "CurrentItem":
        raise UnresolvedReference(f"Get {get.text!r}: a ForEach has no {get.path[0]!r}. Allowed: ForEach.CurrentItem.")
    path = get.path[1:]
    if path and isinstance(item, str):
        try:
            item = json_text.parse(item, "the item")
        except UserError:
            raise UnresolvedReference(f"Get {get.text!r}: the item {item!r:.80} is no JSON text.") from None
    try:
        found = descend(item, path)
    except LookupError as error:
        raise UnresolvedReference(f"Get {get.text!r}: {error.args[0]}") from None
    return item_text(found) if not path and isinstance(found, dict | list) else found


def problems(definition: Definition) -> Iterator[str]:
    """Find the problems of the ForEach steps of a definition."""
    loops = [step for step in definition.walk() if step.type == FOR_EACH]
    try:
        bodies = {loop.name: loop.body for loop in loops}
    except UserError as error:
        yield str(error)
        return
    names = Counter(
        [step.name for step in definition.walk()] + [step.name for body in bodies.values() for step in body]
    )
    inner = {step.name for body in bodies.values() for step in body}
    for name in sorted(inner):
        if names[name] > 1:
            yield f"{definition.source}: {names[name]} steps are named {name!r}. Names are unique, in bodies too."
    for name in sorted(names):
        match = CHILD_NAME.fullmatch(name)
        if match is not None and match[1] in inner:
            yield (
                f"{definition.source}: step {name!r} is named like an iteration of {match[1]!r}, which the service "
                "refuses. Give it another name."
            )
    for loop in loops:
        yield from _fields(loop)
        yield from _body(loop, definition)
    yield from _lost_results(definition, {loop.name: loop for loop in loops})


def _fields(loop: StepNode) -> Iterator[str]:
    given: Json = loop.arguments.get("IterableItems")
    if isinstance(given, list):
        if not 1 <= len(given) <= MAX_FOREACH_ITEMS:
            yield f"{loop.place}: IterableItems has {len(given)} items. Allowed: 1 to {MAX_FOREACH_ITEMS}."
        for number, item in enumerate(given):
            if item is None or isinstance(item, list) or (isinstance(item, dict) and not is_expression(item)):
                yield (
                    f"{loop.place}: IterableItems[{number}] is {shown(item)}. Allowed: text, numbers, true, false, "
                    "references; an object as JSON text."
                )
    elif not isinstance(given, dict) or not is_expression(given):
        yield (
            f"{loop.place}: IterableItems is {'missing' if given is None else shown(given)}. Allowed: a list, or a "
            "reference to the JSON text of one."
        )
    most: Json = loop.arguments.get("MaxConcurrency")
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MAX_FOREACH_CONCURRENCY:
        said = "missing" if most is None else shown(most)
        yield f"{loop.place}: MaxConcurrency is {said}. Allowed: a whole number from 1 to {MAX_FOREACH_CONCURRENCY}."
    if loop.arguments.get("Selector") is not None:
        try:
            selector(loop)
        except UserError as error:
            yield str(error)


def selector(loop: StepNode) -> tuple[str, Get] | None:
    """Pick and Field of a ForEach's selector; None where it has none.

    The Field's path begins with the name of the step in the body.

    Raises:
        UserError: it is of another form.
    """
    given: Json = loop.arguments.get("Selector")
    if given is None:
        return None
    where = f"{loop.place}: Selector"
    if not isinstance(given, dict):
        raise UserError(f"{where} is {shown(given)}. Allowed: an object with Pick and Field.")
    pick, field = given.get("Pick"), given.get("Field")
    if not isinstance(pick, str) or pick not in PICKS:
        raise UserError(f"{where}.Pick is {shown(pick)}. Allowed: {', '.join(PICKS)}.")
    text = field.get("Get") if isinstance(field, dict) and len(field) == 1 else None
    get = parse_get(text) if isinstance(text, str) else None
    if get is None or get.root != "IterationOutput" or len(get.path) < 2:
        raise UserError(
            f"{where}.Field is {shown(field)}. Allowed: a Get of IterationOutput.<step of the body>.<path>."
        )
    if get.path[0] not in loop.body_names:
        raise UserError(
            f"{where}.Field: the body has no step {str(get.path[0])!r}. "
            f"{did_you_mean(str(get.path[0]), sorted(loop.body_names))}"
        )
    return pick, get


def _body(loop: StepNode, definition: Definition) -> Iterator[str]:
    if not loop.body:
        yield f"{loop.place}: ForEachBody is empty. Give at least one step."
    inner = {step.name: step for step in loop.body}
    for step in loop.body:
        if step_type(step.type).of_the_pipeline:
            yield f"{step.place}: a {step.type} step cannot stand in the body of a ForEach."
            continue
        for dependency in step.depends_on:
            if dependency.step not in inner and dependency.step not in definition.by_name:
                yield (
                    f"{step.place} depends on step {dependency.step!r}, which does not exist. "
                    f"{did_you_mean(dependency.step, [*inner, *definition.by_name])}"
                )
        for get in step.references:
            if get.root == "IterationOutput":
                yield f"{step.place}: Get {get.text!r} has a value in the selector's Field only."
            elif get.root == "ForEach" and get.path[0] != "CurrentItem":
                yield f"{step.place}: Get {get.text!r}: a ForEach has no {get.path[0]!r}. Allowed: ForEach.CurrentItem."
            elif get.property_file is not None and (sibling := inner.get(get.step or "")) is not None:
                files = sibling.property_files
                if get.property_file not in files:
                    yield (
                        f"{step.place}: Get {get.text!r}: step {get.step!r} has no property file "
                        f"{get.property_file!r}. {did_you_mean(get.property_file, files)}"
                    )
    for get in references([loop.arguments.get("IterableItems"), loop.raw.get("DependsOn")]):
        if get.root in ("ForEach", "IterationOutput") or get.step in inner:
            yield f"{loop.place}: Get {get.text!r} has no value where the items are looked for."


def _lost_results(definition: Definition, loops: Mapping[str, StepNode]) -> Iterator[str]:
    """References to what a ForEach does not give."""
    for step in definition.walk():
        for get in step.references:
            loop = loops.get(get.step or "")
            if loop is not None and (said := _lost(get, loop)):
                yield f"{step.place}: Get {get.text!r}: {said}"


def _lost(get: Get, loop: StepNode) -> str | None:
    if not get.path:
        return None  # said already
    first, rest = str(get.path[0]), get.path[1:]
    if first not in MEMBERS:
        return f"a ForEach gives no {first!r}. {did_you_mean(first, MEMBERS)}"
    if first == "Selected" and loop.arguments.get("Selector") is None:
        return f"step {loop.name!r} has no Selector, so nothing is selected."
    if first == "IterationOutputs":
        if len(rest) < 2 or not isinstance(rest[0], int):
            return "it names no iteration. Allowed: IterationOutputs[n].<step of the body>.<path>."
        if rest[1] not in loop.body_names:
            return f"the body has no step {str(rest[1])!r}. {did_you_mean(str(rest[1]), sorted(loop.body_names))}"
    return None


def outer_needs(loop: StepNode) -> set[str]:
    """The steps outside of it that the body of a ForEach names in DependsOn."""
    return {need.step for step in loop.body for need in step.depends_on}.difference(loop.body_names)


def inner_needs(steps: Sequence[StepNode]) -> dict[str, set[str]]:
    """Step -> the steps among `steps` that must have ended before it starts."""
    names = {step.name for step in steps}
    return {
        step.name: ({get.step for get in step.references if get.step} | {need.step for need in step.depends_on}) & names
        for step in steps
    }


def _renamed(node: Json, names: Mapping[str, str]) -> Json:
    """A copy in which references to the steps in `names` lead to their new ones."""
    if isinstance(node, dict):
        text = node.get("Get")
        if len(node) == 1 and isinstance(text, str):
            get = parse_get(text)
            new = names.get(get.step or "")
            return node if new is None else {"Get": path_text(("Steps", new, *get.path))}
        return {key: _renamed(value, names) for key, value in node.items()}
    return [_renamed(item, names) for item in node] if isinstance(node, list) else node


def _renamed_dependency(given: Json, names: Mapping[str, str]) -> Json:
    if isinstance(given, dict):
        step = given.get("Step")
        return {**given, "Step": names.get(step, step)} if isinstance(step, str) else given
    return names.get(given, given) if isinstance(given, str) else given
