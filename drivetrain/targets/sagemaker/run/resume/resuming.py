"""Prepares an execution for its resumption: what the dead runner left is ended, completed or discarded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from drivetrain.processes import end_survivors
from drivetrain.run_store.events import StepFinished
from drivetrain.run_store.home import Home
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.document.for_each import child_name
from drivetrain.targets.sagemaker.document.looks import readers
from drivetrain.targets.sagemaker.document.step_types import outcome
from drivetrain.targets.sagemaker.run.execution.cache import damaged, gone_or_changed
from drivetrain.targets.sagemaker.run.execution.scheduler import DONE, Scheduler, taken_care_of
from drivetrain.targets.sagemaker.run.execution.scope import ExecutionScope
from drivetrain.targets.sagemaker.run.execution.worker import discard, publish, settle_outputs


def settle_earlier_attempts(execution: str, home: Home, store: ObjectStore, ledger: LedgerWriter) -> None:
    """End the processes of attempts that nobody watches any more; finish those that had succeeded. Until the last line
    of their logs they were at work.

    Survivors are ended first: from then on only this process, which holds the lock, writes to the execution's files.
    An attempt that was Publishing has succeeded, and its moves are repeated; the files of any other are discarded.
    """
    left = ledger.unfinished_attempts(execution)
    end_survivors([process for attempt in left for process in attempt.processes])
    ledger.died(execution)
    for attempt in left:
        folder = home.attempt(execution, attempt.step, attempt.number)
        if attempt.status == "Publishing":
            publish(store, folder, ledger.moves(attempt))
            settle_outputs(execution, attempt.step, store, ledger)
            ledger.finish_step(execution, attempt.step, "Succeeded", number=attempt.number)
        else:
            discard(folder)


def damaged_steps(execution: str, selected: Collection[str], store: ObjectStore, ledger: Ledger) -> dict[str, str]:
    """Steps that are done, but something is gone or changed of what they wrote -> what. For a step of an iteration that
    of its ForEach is given. What another step of the execution has written since counts as its own.

    Args:
        selected: the steps that this execution runs; empty for all. (Those of the others are looked at in selecting.)
    """
    found: dict[str, str] = {}
    for row in ledger.steps(execution):
        name = row.parent or row.name
        if row.status not in DONE or name in found or (selected and name not in selected):
            continue
        writer = row.cache_of or execution
        for uri in damaged(writer, row.name, ledger, store):
            by = ledger.writer_of(uri)
            if by[0] != execution or by[1] == row.name:
                found[name] = gone_or_changed(uri, writer)
                break
    return found


def take_up(
    definition: Definition,
    execution: str,
    ledger: LedgerWriter,
    scope: ExecutionScope,
    scheduler: Scheduler,
) -> tuple[tuple[str, ...], tuple[StepFinished, ...]]:
    """Bring an execution that another process began, and whose attempts are settled, to where this one can go on.
    Gives the names of the steps that are done, and the ends of those that stay as they failed, since a step with a
    Trigger has taken care of it: were they run again and did succeed, both sides of the failure would have run.

    Looks whose readers are not all done look again: what is read now may be other data than were seen.
    """
    rows = {row.name: row for row in ledger.steps(execution)}
    handled = taken_care_of(_done(definition, rows))
    kept = {step.name for step in definition.walk() if step.name in handled and rows[step.name].status == "Failed"}
    ledger.reopen(execution, kept)
    finished = {name for name, row in rows.items() if row.status in DONE}
    again = {look for look, those in readers(definition).items() if those - finished - kept}
    settled: list[str] = []
    for step in definition.walk():
        row = rows[step.name]
        if step.name in kept:
            scope.finished(step.name, row.response or {"FailureReason": row.reason, f"{step.type}JobStatus": "Failed"})
            scheduler.settle(step.name, "Failed", reason=row.reason)
        elif row.status in DONE and step.name not in again:
            scope.finished(step.name, row.response)
            scheduler.settle(step.name, row.status, outcome=outcome(step.type, row.response))
        else:
            continue
        settled.append(step.name)
    scheduler.forget(settled)
    # Steps of iterations are settled when their ForEach begins again.
    done = tuple(name for name in rows if name in finished - again)
    return done, tuple(
        _end(row) for row in rows.values() if (row.parent or row.name) in kept and row.status not in DONE
    )


def _end(row: StepRun) -> StepFinished:
    seconds = (row.ended or 0.0) - (row.started or row.ended or 0.0)
    return StepFinished(row.name, "Failed" if row.status == "Failed" else "NotExecuted", seconds, reason=row.reason)


def _done(definition: Definition, rows: Mapping[str, StepRun]) -> Iterator[StepNode]:
    """The steps that are done; those of iterations as the body has them."""
    bodies = {step.name: step.body for step in definition.walk()}
    for row in rows.values():
        if row.status not in DONE:
            continue
        if row.parent is None:
            yield definition.step(row.name)
        elif row.iteration is not None:
            yield from (one for one in bodies[row.parent] if child_name(one.name, row.iteration) == row.name)
