"""Whether an execution found anything new: a schedule's often do not."""

from __future__ import annotations

from typing import Any

from drivetrain.base.masking import contains_mask
from drivetrain.steps import FRESH_PARAMETER
from drivetrain.targets.local.ledger import ExecutionRow
from drivetrain.targets.local.ledger.reader import Ledger
from drivetrain.targets.sagemaker.document.looks import is_look

_NOT_SELECTED = "not selected"
_EARLIER = """
    WHERE pipeline = ? AND definition_hash = ? AND status = 'Succeeded'
    AND rowid < (SELECT rowid FROM executions WHERE id = ?) ORDER BY rowid DESC
"""


def nothing_new_since(ledger: Ledger, execution: str) -> str | None:
    """The latest earlier execution of the same definition and parameters that succeeded and found the same sources.

    None where there is none, where a step with a cache ran or a cached one has a warning, and where steps were left
    out: whoever runs a part sees a part.
    """
    row = ledger.execution(execution)
    steps = ledger.steps(row.id)
    cached = [step for step in steps if step.status == "Cached"]
    if row.status != "Succeeded" or not cached or any(step.why for step in cached) or contains_mask(row.parameters):
        return None
    from drivetrain.targets.sagemaker.document.document import read

    path = ledger.home.run(row.id) / "definition.json"
    if not path.is_file() or _is_of_a_part(ledger, row.id):
        return None
    with_cache = {node.name for node in read(path.read_bytes(), str(path)).walk() if node.cache.enabled}
    ran = (step for step in steps if step.status == "Succeeded")
    if any((step.name if step.parent is None else step.name.rpartition("-")[0]) in with_cache for step in ran):
        return None
    seen = _seen(ledger, row.id)
    for earlier in ledger.selected(_EARLIER, row.pipeline, row.definition_hash, row.id):
        alike = _parameters(earlier) == _parameters(row) and seen.items() <= _seen(ledger, earlier.id).items()
        if alike and not _is_of_a_part(ledger, earlier.id):
            return earlier.id
    return None


def _parameters(row: ExecutionRow) -> dict[str, Any]:
    return {name: value for name, value in row.parameters.items() if name != FRESH_PARAMETER}


def _is_of_a_part(ledger: Ledger, execution: str) -> bool:
    return any(_NOT_SELECTED in (step.reason, *step.why) for step in ledger.steps(execution))


def _seen(ledger: Ledger, execution: str) -> dict[tuple[str, str, str], str]:
    """The digests of what looks found, and of what the steps that ran read from outside the execution."""
    looks = {step.name for step in ledger.steps(execution) if is_look(step.arguments)}
    return {
        (item.step, item.flow, item.name): item.digest
        for item in ledger.artifacts(execution)
        if (item.step in looks if item.flow == "output" else item.from_step is None)
    }
