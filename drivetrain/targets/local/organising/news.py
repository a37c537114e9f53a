"""Whether an execution found anything new: a schedule's often do not."""

from __future__ import annotations

from drivetrain.targets.local.ledger.reader import Ledger


def nothing_new_since(ledger: Ledger, execution: str) -> str | None:
    """The latest execution from which an execution took its results, where each step with a cache was a hit; None where
    one ran, or the execution did not succeed."""
    steps = ledger.steps(execution)
    earlier = [step.cache_of for step in steps if step.status == "Cached" and step.cache_of]
    if not earlier or ledger.execution(execution).status != "Succeeded":
        return None
    from drivetrain.targets.sagemaker.document.document import read

    path = ledger.home.run(execution) / "definition.json"
    if not path.is_file():
        return None
    cached = {node.name for node in read(path.read_bytes(), str(path)).walk() if node.cache.enabled}
    ran = (step for step in steps if step.status == "Succeeded")
    if any((step.name if step.parent is None else step.name.rpartition("-")[0]) in cached for step in ran):
        return None
    return max(earlier)
