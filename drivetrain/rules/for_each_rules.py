"""Rules about for_each: its items, its body, and what refers into it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from drivetrain.base.errors import did_you_mean
from drivetrain.catalog import quotas
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import BaseStep, ConditionStep, FailStep, ForEachStep, JobStep, NativeStep
from drivetrain.spec.values import TYPE_OF_SCALAR, ItemRef, Reference, ValueType, value_type

rule = RuleBook()

CONTROL = (ConditionStep, FailStep, ForEachStep)
# The service's types have the same names.
NATIVE_CONTROL = frozenset(kind.__name__.removesuffix("Step") for kind in CONTROL)

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


@rule.each(ForEachStep)
def bodies_hold_what_may_run_many_times(loop: ForEachStep, graph: Graph) -> Iterator[str]:
    if not loop.body:
        yield f"the body of {loop.name!r} is empty. Give for_each(items, [step, ...])."
    for step in loop.body:
        native = isinstance(step, NativeStep) and step.type in NATIVE_CONTROL
        if isinstance(step, CONTROL) or native:
            yield (
                f"step {step.name!r} stands in the body of {loop.name!r}. No condition, fail or for_each can: the "
                "service refuses them there."
            )


@rule
def iterations_have_names_of_their_own(graph: Graph) -> Iterator[str]:
    for step in graph.steps:
        loop, _, number = step.name.rpartition("-")
        if number.isdecimal() and loop in graph.loops:
            yield f"step name {step.name!r} is that of an iteration of {loop!r}. Give the step another name."
    for loop in (step for step in graph.steps if isinstance(step, ForEachStep)):
        last = f"-{quotas.MAX_FOREACH_ITEMS - 1}"
        for step in loop.body:
            if len(step.name) + len(last) > quotas.MAX_STEP_NAME_CHARACTERS:
                yield (
                    f"step name {step.name!r} in the body of {loop.name!r} is too long: with the iteration's number it "
                    f"has at most {quotas.MAX_STEP_NAME_CHARACTERS} characters."
                )


@rule.each(ForEachStep)
def items_are_listed(loop: ForEachStep, graph: Graph) -> Iterator[str]:
    if not isinstance(loop.items, tuple):
        if not isinstance(loop.items, Reference) or value_type(loop.items) != "String":
            given = f"{loop.items!r:.60}"
            yield f"the items of {loop.name!r} are {given}. Give a list, or a reference to the JSON text of one."
        return
    if not 1 <= len(loop.items) <= quotas.MAX_FOREACH_ITEMS:
        yield f"{loop.name!r} has {len(loop.items)} items. Allowed: 1 to {quotas.MAX_FOREACH_ITEMS}."
    for item in loop.items:
        if isinstance(item, str) and len(item) > quotas.MAX_ITEM_CHARACTERS:
            yield f"an item of {loop.name!r} has {len(item):,} characters. Allowed: {quotas.MAX_ITEM_CHARACTERS:,}."


@rule.each(BaseStep)
def the_current_item_stands_in_a_body(step: BaseStep, graph: Graph) -> Iterator[str]:
    if step.name in graph.loops:
        return
    for reference in graph.references[step.name]:
        if isinstance(reference, ItemRef):
            yield f"step {step.name!r} uses the current item, but stands in no for_each. Put it into a body."


@rule.each(ForEachStep)
def items_have_what_is_taken_from_them(loop: ForEachStep, graph: Graph) -> Iterator[str]:
    wanted = {
        (reference.path, reference.type): reference
        for step in loop.body
        for reference in graph.references[step.name]
        if isinstance(reference, ItemRef)
    }
    for _, reference in sorted(wanted.items()):
        for item in _literal(loop):
            try:
                found: object = _field(item, reference.path)
            except LookupError as error:
                yield f"{loop.name!r}: item {item!r:.80} has no field {reference.path!r}. {error.args[0]}"
                break
            kind: ValueType | None = TYPE_OF_SCALAR.get(type(found))
            if kind != reference.type and not (kind == "Integer" and reference.type == "Float"):
                said = "an object or a list" if kind is None else kind
                yield (
                    f"{loop.name!r}: {reference.described()} is taken as {reference.type}, but of item "
                    f"{item!r:.80} it is {said}."
                )
                break


@rule.each(ForEachStep)
def iterations_write_to_places_of_their_own(loop: ForEachStep, graph: Graph) -> Iterator[str]:
    if not any(isinstance(step, JobStep) for step in loop.body):
        return
    names: list[str] = []
    for item in _literal(loop):
        try:
            found = _field(item, loop.key)
        except LookupError:
            found = None
        name = json.dumps(found) if isinstance(found, int | float) else found
        if not isinstance(name, str) or not _FOLDER.fullmatch(name):
            named = repr(name) if isinstance(name, str) else f"item {item!r:.80}"
            yield (
                f"{loop.name!r}: {named} cannot name the folder of an iteration's outputs. Allowed: letters, "
                "digits and . _ + -. Give objects and the field that names them: "
                "for_each([{'id': 'a1', ...}, ...], key='id')."
            )
            break
        names.append(name)
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{loop.name!r}: {count} items are named {name!r}, and would write over each other's outputs."


@rule.each(ForEachStep)
def what_is_compared_stands_in_the_body(loop: ForEachStep, graph: Graph) -> Iterator[str]:
    names = [step.name for step in loop.body]
    if loop.selector is not None and loop.selector.step not in names:
        yield (
            f"{loop.name!r} compares a value of step {loop.selector.step!r}, which is not in its body. "
            f"{did_you_mean(loop.selector.step, names)}"
        )


def _literal(loop: ForEachStep) -> list[Any]:
    """The items that are known when the pipeline is built."""
    items = loop.items if isinstance(loop.items, tuple) else ()
    return [item for item in items if not isinstance(item, Reference)]


def _field(item: object, path: str) -> object:
    """A field of an item that is the JSON text of an object; the item itself without a path.

    Raises:
        LookupError: it has no such field.
    """
    if not path:
        return item
    try:
        value: object = json.loads(item) if isinstance(item, str) else None
    except ValueError:
        value = None
    for name in path.split("."):
        if not isinstance(value, dict):
            raise LookupError("It is no object.")
        fields = cast("dict[str, Any]", value)
        if name not in fields:
            raise LookupError(did_you_mean(name, fields))
        value = fields[name]
    return value
