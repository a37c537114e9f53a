"""Steps of an execution that get what became of them in an earlier one, without being run or looked up in the cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from drivetrain.run_store.events import Observer, StepFinished
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.document.step_types import outcome
from drivetrain.targets.sagemaker.run.execution.scheduler import Scheduler
from drivetrain.targets.sagemaker.run.execution.scope import ExecutionScope


def take_over(
    steps: Iterable[StepNode],
    rows: Mapping[str, StepRun],
    why: str,
    execution: str,
    ledger: LedgerWriter,
    scope: ExecutionScope,
    scheduler: Scheduler,
    observe: Observer,
) -> None:
    """Settle those of the steps that are not yet; the others wait for nothing that was taken."""
    left = [step for step in steps if step.name not in scheduler.statuses]
    for step in left:
        row = rows.get(step.name)
        if row is None or row.status == "NotExecuted":
            ledger.settle_step(execution, step.name, "NotExecuted", reason=why)
            scheduler.settle(step.name, "NotExecuted", reason=why)
            observe(StepFinished(step.name, "NotExecuted", 0.0, reason=why))
            continue
        earlier = row.cache_of or row.execution
        ledger.settle_step(
            execution,
            step.name,
            "Cached",
            arguments=row.arguments,
            response=row.response,
            value=row.value,
            cache_of=earlier,
            why=(why,),
            reused=True,
        )
        scope.finished(step.name, row.response)
        scheduler.settle(step.name, "Cached", outcome=outcome(step.type, row.response))
        observe(StepFinished(step.name, "Cached", 0.0, cache_of=earlier, why=(why,), value=row.value))
    scheduler.forget([step.name for step in left])
