"""The iterations of a ForEach: its items, looked up once, and the steps that are run for them.

The items lie in the run's folder, which only its owner may read: an execution that goes on has those with which it
began, also where they came from a file that has changed since or from the time of day.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import Json
from drivetrain.run_store.events import StepStatus
from drivetrain.run_store.home import Home, write_whole
from drivetrain.run_store.schema import Child
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.document import for_each
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.scheduler import DONE, Loop, Scheduler
from drivetrain.targets.sagemaker.run.execution.scope import ExecutionScope, shown_item
from drivetrain.targets.sagemaker.run.step_types.for_each import Ended

_ITEMS = "items.json"


def items_file(home: Home, execution: str, step: str) -> Path:
    """The file that keeps the items of a ForEach."""
    return home.run(execution) / step / _ITEMS


def items_of(step: StepNode, scope: ExecutionScope, file: Path) -> list[Json]:
    """The items of a ForEach: those with which it began, or what its IterableItems are now, which are kept.

    Raises:
        UserError: they have no value, or are no list.
    """
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass  # it begins
    given: Json = step.arguments["IterableItems"]
    items = for_each.items_of(scope.arguments(given), literal=isinstance(given, list))
    if len(items) * len(step.body) > for_each.MAX_CHILDREN:
        raise UserError(for_each.too_many(items, step))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(items))
    return items


@dataclass(frozen=True)
class Expansion:
    """The iterations of a ForEach that begins: `steps` are theirs (name, type, display name), `done` those that an
    earlier process has done, `bodies` the step of the body that each is made of."""

    steps: tuple[tuple[str, str, str], ...]
    done: tuple[str, ...]
    bodies: Mapping[str, str]


def begin(
    step: StepNode, home: Home, execution: str, scope: ExecutionScope, ledger: LedgerWriter, scheduler: Scheduler
) -> Expansion:
    """Let the steps of a ForEach's iterations come: into the scope, the ledger and the scheduler.

    Raises:
        UserError: its items have no value, or are no list.
    """
    items = items_of(step, scope, items_file(home, execution, step.name))
    iterations = [for_each.children(step, index) for index in range(len(items))]
    for iteration, item in zip(iterations, items, strict=True):
        scope.iterate(iteration, item)
    ledger.masking = scope.masking
    children = entries(iterations, items, scope)
    kept = {key: value for key, value in step.arguments.items() if key != "ForEachBody"}
    rows = ledger.expand_step(execution, step.name, arguments={**kept, "IterableItems": items}, children=children)
    scheduler.expand(step, iterations, step.arguments["MaxConcurrency"])
    done: list[str] = []
    for name, row in rows.items():
        if row.status in DONE:
            done.append(name)
            scope.finished(name, row.response)
            scheduler.settle(name, row.status)
    scheduler.forget(done)
    if done:
        from drivetrain.targets.sagemaker.run.resume.earlier_looks import enter_earlier_look

        for one in (one for iteration in iterations for one in iteration if one.name in done):
            enter_earlier_look(one, rows[one.name], scope, ledger)
    steps = tuple((one.name, one.type, one.title) for one in children)
    return Expansion(steps, tuple(done), for_each.body_names(step, len(items)))


def entries(iterations: Sequence[Sequence[StepNode]], items: Sequence[Json], scope: ExecutionScope) -> list[Child]:
    """The steps of the iterations, as the ledger gets them."""
    return [
        Child(
            name=one.name,
            type=one.type,
            title=one.display_name or one.name,
            iteration=index,
            item=shown_item(item, scope.masking),
        )
        for index, (iteration, item) in enumerate(zip(iterations, items, strict=True))
        for one in iteration
    ]


def ends(
    loop: Loop,
    statuses: Mapping[str, StepStatus],
    responses: Mapping[str, Mapping[str, Any]],
    cut_off: Collection[str] = (),
) -> tuple[dict[str, Ended], ...]:
    """How the steps of each iteration ended, by step of the body; `cut_off` are those that did not come to run before
    the execution ended."""
    return tuple(
        {
            body.name: Ended("Stopped" if one.name in cut_off else statuses[one.name], responses.get(one.name, {}))
            for body, one in zip(loop.step.body, iteration, strict=True)
        }
        for iteration in loop.iterations
    )
