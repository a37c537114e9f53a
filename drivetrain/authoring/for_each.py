"""The words for steps that are run once an item.

rate = current_item("Float")
model = step(train, train=data["train"], learning_rate=rate)
sweep = for_each([0.1, 0.3], [model], name="sweep", best=largest(model.logged("validation_accuracy")))
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from drivetrain.authoring.binding import dependencies, listed_steps
from drivetrain.base.errors import SpecError, shown
from drivetrain.spec.steps import BaseStep, Dependency, ForEachStep, Selector, Step
from drivetrain.spec.values import ItemRef, LambdaOutputRef, LoggedRef, PropertyRef, Reference, ValueType, as_value


def for_each(
    items: Sequence[Any] | Reference | Any,
    body: Sequence[Step],
    *,
    name: str,
    max_concurrency: int = 10,
    key: str = "",
    best: Selector | None = None,
    display_name: str | None = None,
    description: str | None = None,
    after: Sequence[BaseStep | Dependency] = (),
) -> ForEachStep:
    """Run the steps of `body` once an item.

        rate = current_item("Float")
        model = step(train, train=data["train"], learning_rate=rate)
        sweep = for_each([0.1, 0.3], [model], name="sweep", best=largest(model.logged("validation_accuracy")))
        register(model=sweep.best["model"], group="digits")

    Args:
        items: texts, numbers, objects (dicts of them) or references, 1 to 100; or a reference to a list's JSON text.
        max_concurrency: steps at a time, 1 to 50.
        key: where items are objects, the field whose value names an iteration's folder of outputs and checkpoints.
        best: `largest(...)` or `smallest(...)` of a value of a step of the body.

    Raises:
        SpecError: items that a pipeline cannot carry.
    """
    given: Any = items
    if hasattr(given, "ref") or isinstance(given, Reference):
        listed: Any = as_value(given)
    elif isinstance(given, str) or not isinstance(given, Sequence):
        raise SpecError(
            f"for_each({shown(given, 60)}, name={name!r}): give a list of items, or a reference to the text of one."
        )
    else:
        for one in cast("Sequence[Any]", given):
            if isinstance(one, float) and not math.isfinite(one):
                raise SpecError(f"for_each(..., name={name!r}): item {one!r} is no number that JSON has. Leave it out.")
        # An object goes along as its JSON text, and its fields are taken from that.
        listed = tuple(
            as_value(json.dumps(one, ensure_ascii=False) if isinstance(one, Mapping) else one)
            for one in cast("Sequence[Any]", given)
        )
    return ForEachStep(
        name=name,
        display_name=display_name,
        description=description,
        depends_on=dependencies(after),
        items=listed,
        body=listed_steps("for_each", "body", body),
        max_concurrency=max_concurrency,
        key=key,
        selector=best,
    )


def current_item(type: ValueType = "String", field: str = "") -> ItemRef:
    """In the steps of a for_each: the item of the iteration, or a field of it (`size`, `optimizer.lr`)."""
    return ItemRef(path=field, type=type)


def largest(value: Reference) -> Selector:
    """For for_each(best=...): the iteration in which the value (a training's logged metric, a property, a Lambda's
    value) is the largest."""
    return _selector("MaxBy", value)


def smallest(value: Reference) -> Selector:
    """As `largest`, for the smallest."""
    return _selector("MinBy", value)


def _selector(pick: Literal["MaxBy", "MinBy"], value: Reference) -> Selector:
    if isinstance(value, LoggedRef | LambdaOutputRef | PropertyRef):
        return Selector(pick=pick, value=value)
    given: Any = value
    said = given.described() if isinstance(given, Reference) else shown(given)
    raise SpecError(
        f"{said} cannot be compared between iterations: the service looks into its description of a job, "
        "not into files. Give a metric that a training logs (step.logged('...')), a property, or a Lambda's value."
    )
