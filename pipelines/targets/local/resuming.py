"""Before an execution goes on: what its dead runner left is ended, completed, or thrown away."""

from __future__ import annotations

from drivetrain.pipelines.targets.local.containers.processes import end_survivors
from drivetrain.pipelines.targets.local.home import Home
from drivetrain.pipelines.targets.local.ledger.writer import LedgerWriter
from drivetrain.pipelines.targets.local.storage.objects import ObjectStore
from drivetrain.pipelines.targets.local.worker import discard, publish


def settle_earlier_attempts(execution: str, home: Home, store: ObjectStore, ledger: LedgerWriter) -> None:
    """End the processes of attempts that nobody watches any more; finish those that had succeeded.

    Survivors are ended first: from then on only this process, which holds the lock, writes to the execution's files.
    An attempt that was Publishing has succeeded, and its moves are repeated; the files of any other are discarded.
    """
    left = ledger.unfinished_attempts(execution)
    end_survivors([process for attempt in left for process in attempt.processes])
    for attempt in left:
        folder = home.attempt(execution, attempt.step, attempt.number)
        if attempt.status == "Publishing":
            publish(store, folder, ledger.moves(attempt))
            ledger.finish_step(execution, attempt.step, "Succeeded", number=attempt.number)
        else:
            discard(folder)
