"""An execution goes on with another definition: what is the same stays done, the rest is done again.

Made for a training that moves from spot machines to on-demand ones: only its own step has changed, and its checkpoints
lie where they lay.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from drivetrain.pipelines.definition.document import Definition, read
from drivetrain.pipelines.definition.graph import dependencies
from drivetrain.pipelines.targets.local.iterating import items_file
from drivetrain.pipelines.targets.local.ledger.writer import LedgerWriter
from drivetrain.pipelines.targets.local.request import Request
from drivetrain.pipelines.targets.local.storage.objects import ObjectStore


def changed_steps(old: Definition, new: Definition, values: Collection[str] = ()) -> set[str]:
    """The steps of `new` that are not as in `old` or refer to a parameter among `values`, which has another value now;
    and all that need one of them."""
    changed = {
        step.name
        for step in new.walk()
        if step.name not in old.by_name
        or step.own_fields != old.step(step.name).own_fields
        or step.branch != old.step(step.name).branch
        or any(get.parameter in values for get in step.references)
    }
    needs = dependencies(new)
    grown = True
    while grown:
        more = {name for name, needed in needs.items() if name not in changed and needed & changed}
        changed |= more
        grown = bool(more)
    return changed


def given_parameters(definition: Definition, bound: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not the defaults: those that somebody gave."""
    defaults = {parameter.name: parameter.default for parameter in definition.parameters}
    return {name: value for name, value in bound.items() if defaults.get(name) != value}


def redefine(execution: str, old: Request, new: Request, ledger: LedgerWriter, store: ObjectStore) -> set[str]:
    """Enter the new definition in the place of the old one; gives the steps that have to run (again).

    What such a step had already brought to the store goes, so that nothing of the old stays among the new.
    """
    before, after = read(old.text, f"execution {execution}"), read(new.text, "the new definition")
    names = {*old.parameters, *new.parameters}
    again = changed_steps(
        before, after, {name for name in names if old.parameters.get(name) != new.parameters.get(name)}
    )
    gone = {*again, *(set(before.by_name) - set(after.by_name))}
    for row in ledger.steps(execution):
        if row.name in gone or row.parent in gone:
            for uri, _ in ledger.written(execution, row.name):
                store.path(uri).unlink(missing_ok=True)
    for step in gone:  # a ForEach looks its items up anew
        items_file(ledger.home, execution, step).unlink(missing_ok=True)
    ledger.redefine(
        execution,
        definition_hash=new.definition_hash,
        request_hash=new.hash,
        parameters=new.parameters,
        steps=[(step.name, step.type, step.display_name or step.name) for step in after.walk()],
        again=again,
    )
    return again
