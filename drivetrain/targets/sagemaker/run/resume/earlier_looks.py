"""Steps that were done before a look at their source found another version: they keep their results, and it is said."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from drivetrain.base.errors import UserError
from drivetrain.run_store.events import StepNoted
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.schema import dump
from drivetrain.run_store.statuses import change_step
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.document.document import FOR_EACH, Definition, StepNode
from drivetrain.targets.sagemaker.document.looks import readers
from drivetrain.targets.sagemaker.run.execution.scope import ExecutionScope, moment_of_step

EARLIER_LOOK = "with data of the earlier look"


def notes_of(
    look: str, before: Collection[str], definition: Definition, scope: ExecutionScope, ledger: LedgerWriter
) -> Iterator[StepNoted]:
    """A step of an execution that goes on has ended; where it is a look, what is to be said of its readers among those
    that were done `before`. Of the steps of iterations it is noted when their ForEach begins."""
    assert ledger.facts is not None
    for name in sorted(readers(definition).get(look, set()) & set(before)):
        step, row = definition.step(name), ledger.step(ledger.facts.id, name)
        if step.type != FOR_EACH and enter_earlier_look(step, row, scope, ledger):
            yield StepNoted(name, row.attempts, f"done before, {EARLIER_LOOK}")


def enter_earlier_look(step: StepNode, row: StepRun, scope: ExecutionScope, ledger: LedgerWriter) -> bool:
    """Note of a step that is done if it would get other arguments now: all that it needs is done, too, and only looks
    run again."""
    now = partial(moment_of_step, ledger.home, row.execution, step.name)
    try:
        arguments = scope.arguments(step.own_fields.get("Arguments") or {}, step.name, now)
    except UserError:  # another look at what it reads has not ended: that one will tell
        return False
    if ledger.masking(arguments) == row.arguments:
        return False
    if EARLIER_LOOK not in row.why:
        with ledger.transaction() as db:
            change_step(db, row.execution, row.name, why=dump([*row.why, EARLIER_LOOK]))
    return True
