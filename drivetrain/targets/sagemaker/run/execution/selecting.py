"""Selective execution: some steps of a definition are run, and what they need of the others is an earlier execution's.

Documented (https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-selective-ex.html), beside which selections are
taken (document/graph.py): what selected steps need of others is taken from a reference execution of the same
pipeline, the latest one unless another is named, which has ended; steps after them are not run. Inferred: a condition
that is not selected has the outcome that it had there, and parameters have the values of this run.

Here alone, what selected steps read is looked at anew: by the version of the earlier execution, the cache would keep
what they make of other data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drivetrain.base.errors import UserError
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.document.graph import check_selection
from drivetrain.targets.sagemaker.document.looks import looks_of
from drivetrain.targets.sagemaker.document.step_types import FALSE, TRUE
from drivetrain.targets.sagemaker.run.execution.cache import damaged, gone_or_changed
from drivetrain.targets.sagemaker.run.execution.scheduler import DONE, outer_waits

_REFERENCES = ("Succeeded", "CompletedWithFailures", "Failed", "Stopped")


@dataclass(frozen=True)
class Selection:
    """The steps to be run, and those of the execution `source` whose results stand for the others they need."""

    steps: frozenset[str]
    source: str | None
    reused: Mapping[str, StepRun]


def reference(ledger: Ledger, pipeline: str, given: str | None) -> str | None:
    """The id of the execution that results are taken from: that which was named, else the pipeline's latest; None
    where there has been none.

    Raises:
        UserError: it is of another pipeline, or has not ended.
    """
    if given in (None, "latest"):
        latest = ledger.executions(limit=1, pipeline=pipeline)
        if not latest:
            return None
        row = latest[0]
    else:
        assert given is not None
        row = ledger.execution(given)
    if row.pipeline != pipeline:
        raise UserError(f"--from {row.id}: it is an execution of {row.pipeline}, not of {pipeline}.")
    if row.status not in _REFERENCES:
        go_on = (
            f"Resume it first (drivetrain runs resume {row.id})"
            if row.status == "Interrupted"
            else "Wait until it ends"
        )
        raise UserError(
            f"Execution {row.id}, from which the steps that are not selected would be taken, is {row.status.lower()}. "
            f"{go_on}, or name another by --from."
        )
    return row.id


def select(
    definition: Definition, names: Iterable[str], ledger: Ledger, store: ObjectStore, source: str | None
) -> Selection:
    """Find the steps to run and the results to reuse.

    Raises:
        UserError: a selection that the service would refuse, or one that needs what the reference has not got.
    """
    chosen = frozenset(names)
    before = check_selection(definition, chosen)
    looks = looks_of(definition, chosen)
    rows = {} if source is None else {row.name: row for row in ledger.steps(source)}
    for step in definition.walk():
        if step.name in chosen:
            for row in _needed(step, chosen | looks, rows, source):
                writer = row.cache_of or row.execution
                for uri in damaged(writer, row.name, ledger, store):
                    raise UserError(
                        f"--select {step.name}: it needs {row.name}, and {gone_or_changed(uri, writer)}. Select "
                        f"{row.name}, too, or name another execution by --from."
                    )
    reused = {name: rows[name] for name in before - looks if name in rows and rows[name].status in DONE}
    return Selection(chosen | looks, source, reused)


def _needed(step: StepNode, chosen: frozenset[str], rows: Mapping[str, StepRun], source: str | None) -> list[StepRun]:
    """The earlier results that a selected step needs of steps that are not selected.

    Raises:
        UserError: the reference does not give what a selected step needs of steps that are not.
    """
    waits: dict[str, str | None] = {}
    for need in outer_waits(step):
        waits[need.step] = waits.get(need.step) or need.trigger
    needed = {get.step for get in step.references if get.step} | waits.keys() | {name for name, _ in step.branch}
    for name in sorted(needed - chosen):
        if waits.get(name) is not None:
            raise UserError(
                f"--select {step.name}: it runs when {name} ends as {waits[name]}, so that is to be selected, too."
            )
        if source is None:
            raise UserError(
                f"--select {step.name}: it needs {name}, and there is no execution to take that from. Select {name}, "
                "too, or run the whole pipeline first."
            )
        row = rows.get(name)
        if row is None or row.status not in DONE:
            was = "is not in it" if row is None else f"is {'not done' if row.status == 'Waiting' else row.status} there"
            raise UserError(
                f"--select {step.name}: it needs {name}, which {was} (execution {source}). Select {name}, too, or name "
                "another execution by --from."
            )
    for name, outcome in step.branch:
        if name not in chosen and rows[name].response.get("Outcome") != (TRUE if outcome else FALSE):
            raise UserError(
                f"--select {step.name}: in execution {source} the condition {name} took the other branch. Select "
                f"{name}, too, or name another execution by --from."
            )
    return [rows[name] for name in sorted(needed - chosen)]
