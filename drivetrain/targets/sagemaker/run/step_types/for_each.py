"""ForEach: the result of its iterations, once their steps have ended. The execution runs these (iterating.py).

Documented (sagemaker.mlops.workflow.for_each_step, ForEachStepMetadata): Status, the counts, IterationOutputs[n] by
step of the body, and Selected, the output of the step that the selector's Field names in the iteration that it picks.
Inferred: it fails when a step of an iteration failed, and the other iterations are run to their ends all the same; of
equal values the first is picked; values are compared as numbers; no items are no failure, unless one is to be picked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivetrain.base.errors import ERROR, UserError
from drivetrain.run_store.events import StepStatus
from drivetrain.run_store.reasons import loop_reason
from drivetrain.targets.sagemaker.document import descend, for_each, path_text
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult

STOPPED = "not all of its steps ran to their ends"
_DONE = ("Succeeded", "Cached")


def check(step: StepNode, plan: RunPlan) -> list[str]:
    return []  # graph.check has read its fields; the steps of its body are checked as steps


def run(context: StepContext) -> StepResult:
    """It is never called: the execution runs the steps of the iterations."""
    raise AssertionError(f"step {context.step.name!r} is run by its iterations")


@dataclass(frozen=True)
class Ended:
    """How a step of an iteration ended, and what it gave."""

    status: StepStatus
    response: Mapping[str, Any]


# A finished iteration: step of the body -> how it ended.
Iteration = Mapping[str, Ended]


def end(step: StepNode, iterations: Sequence[Iteration]) -> StepResult:
    """End a ForEach whose iterations have ended: the response's Status says how, its FailureReason why."""
    try:
        return _result(step, iterations)
    except UserError as error:
        return StepResult(response={"Status": "Failed", "FailureReason": f"{ERROR}{error}"})


def _result(step: StepNode, iterations: Sequence[Iteration]) -> StepResult:
    """
    Raises:
        UserError: what the selector compares is no number, or there is nothing to pick from.
    """
    counts = Counter("Succeeded" if end.status in _DONE else end.status for it in iterations for end in it.values())
    total = sum(counts.values())
    response: dict[str, Any] = {
        "Status": "Succeeded",
        "InputItemCount": len(iterations),
        "TotalStepCount": total,
        "SucceededStepCount": counts["Succeeded"],
        "FailedStepCount": counts["Failed"],
        "StoppedStepCount": counts["Stopped"],
        "IterationOutputs": [
            {name: end.response for name, end in iteration.items() if end.status in _DONE} for iteration in iterations
        ],
    }
    value = f"{counts['Succeeded']} of {total} steps"
    if counts["Failed"]:
        return StepResult(response={**response, "Status": "Failed", "FailureReason": _reason(iterations)}, value=value)
    if counts["Stopped"]:
        return StepResult(response={**response, "Status": "Stopped", "FailureReason": STOPPED}, value=value)
    if (wanted := for_each.selector(step)) is not None:
        pick, field = wanted
        name, path = str(field.path[0]), field.path[1:]
        index, best = _picked(iterations, pick, name, path)
        response["Selector"] = {"StepName": for_each.child_name(name, index), "Index": index}
        response["Selected"] = iterations[index][name].response
        value = f"{for_each.child_name(name, index)}: {path_text(path)} {best:g}"
    return StepResult(response=response, value=value)


def _reason(iterations: Sequence[Iteration]) -> str:
    return loop_reason(
        [
            (for_each.child_name(name, index), str(end.response.get("FailureReason") or "failed"))
            for index, iteration in enumerate(iterations)
            for name, end in iteration.items()
            if end.status == "Failed"
        ]
    )


def _picked(iterations: Sequence[Iteration], pick: str, name: str, path: tuple[str | int, ...]) -> tuple[int, float]:
    """The iteration with the largest or smallest value, and that."""
    values = {
        index: _number(iteration[name], index, name, path)
        for index, iteration in enumerate(iterations)
        if iteration[name].status in _DONE
    }
    if not values:
        raise UserError(f"no iteration ran {name!r}, so the selector has nothing to pick from.")
    best = max(values, key=values.__getitem__) if pick == "MaxBy" else min(values, key=values.__getitem__)
    return best, values[best]


def _number(end: Ended, index: int, name: str, path: tuple[str | int, ...]) -> float:
    where = f"the selector compares {path_text(path)} of {for_each.child_name(name, index)}"
    try:
        found: Any = descend(dict(end.response), path)
    except LookupError as error:
        raise UserError(f"{where}: {error.args[0]}") from None
    try:
        number = math.nan if isinstance(found, bool) else float(found)
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number):
        raise UserError(f"{where}, which is {found!r:.60}. Allowed: a number.")
    return number
