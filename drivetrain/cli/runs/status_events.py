"""`drivetrain runs show --events`: what EventBridge would have told of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.reasons import in_a_line
from drivetrain.telling.terminal import say, say_json, table

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home


def show_events(home: Home, execution: str, *, as_json: bool) -> None:
    """Print the events of an execution in order: a line each, or the whole of them as a list in JSON.

    Raises:
        UserError: there is no such execution.
    """
    with Ledger(home) as ledger:
        id = ledger.execution(execution).id
        rows = ledger.events(id)
    if as_json:
        say_json([dict(row.event) for row in rows])
        return
    if not rows:
        say(f"Execution {id} was run before events were kept.")
        return
    cells: list[list[str]] = []
    for row in rows:
        detail: dict[str, Any] = row.event["detail"]
        kind = "Step" if row.step is not None else "PipelineExecution"
        before, now = detail.get(f"previous{kind}Status"), str(detail[f"current{kind}Status"])
        hit: dict[str, str] = detail.get("cacheHitResult", {})
        source = hit.get("sourcePipelineExecutionArn", "")
        more = f"cached, from {source.rpartition('/')[2]}" if source else in_a_line(detail.get("failureReason", ""))
        cells.append(
            [row.event["time"], row.step or "(execution)", detail.get("stepType", ""), f"{before or ''} -> {now}", more]
        )
    say(table(("time", "step", "type", "status", ""), cells))
