"""The logs of a step: which one, and its lines as they are or as they grow.

Each source gives a log whole, so that following asks again and shows what has been added.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.targets.kubeflow.deploy.executions.executions import Execution, describe
from drivetrain.targets.kubeflow.deploy.executions.output import Output
from drivetrain.targets.kubeflow.deploy.executions.steps import StepRun
from drivetrain.targets.kubeflow.deploy.executions.workflow import Attempt
from drivetrain.targets.kubeflow.deploy.rest import Api

POLL_SECONDS = 5.0
_WHY_NONE = {"Cached": "its result comes from the cache", "NotExecuted": "it was not run"}


@dataclass(frozen=True)
class Line:
    """A line, and the pod that printed it."""

    host: str
    text: str


def step_with_log(execution: Execution, name: str | None) -> StepRun:
    """The step that was named, else the one that a person wants to read about: failed, running, the last one.

    Raises:
        UserError: there is no such step, it has not begun, or it ran no program.
    """
    if name is not None:
        step = next((each for each in execution.steps if name in (each.name, each.title)), None)
        if step is None:
            begun = [each.name for each in execution.steps]
            raise UserError(
                f"No step {name!r} has begun in execution {execution.id}. {did_you_mean(name, begun)}"
                if begun
                else f"No step of execution {execution.id} has begun. {execution.note or ''}".rstrip()
            )
        if not step.programs:
            why = _WHY_NONE.get(step.status, "no pod of it is known")
            raise UserError(f"Step {name!r} of {execution.id} has no log: {why}.")
        return step
    logged = [each for each in execution.steps if each.programs]
    if not logged:
        yet = " yet" if execution.is_going else ""
        raise UserError(f"No step of execution {execution.id} has a log{yet}. {execution.note or ''}".rstrip())
    for status in ("Failed", "Executing"):
        for step in logged:
            if step.status == status:
                return step
    return logged[-1]


def awaited_step(
    api: Api,
    execution: Execution,
    name: str | None,
    pause: Callable[[float], object] = lambda seconds: time.sleep(seconds),
) -> tuple[Execution, StepRun]:
    """As `step_with_log`, for who follows: a step that has not begun is waited for while the execution goes on. Gives
    the execution as it is then, too.

    Raises:
        UserError: there will be no such log, or the API refuses.
    """
    names = {name for each in execution.planned for name in (each.name, each.title)}
    if name is not None and name not in names:
        raise UserError(f"Execution {execution.id} has no step {name!r}. {did_you_mean(name, names)}")
    told = False
    while True:
        try:
            return execution, step_with_log(execution, name)
        except UserError:
            begun = next((each for each in execution.steps if name in (each.name, each.title)), None)
            if not execution.is_going or (begun is not None and begun.status != "Executing"):
                raise
        if not told:
            told = True
            what = f"Step {name!r} has not" if name else "No step has"
            waits = f" ({execution.note})" if execution.note else ""
            print(f"{what} begun yet{waits}. Following goes on.", file=sys.stderr, flush=True)
        pause(POLL_SECONDS)
        execution = describe(api, execution.pipeline, execution.id)


def read_log(
    api: Api,
    output: Output,
    execution: Execution,
    step: StepRun,
    write: Callable[[Line], object],
    *,
    follow: bool = False,
    num_lines: int | None = None,
    pause: Callable[[float], object] = lambda seconds: time.sleep(seconds),
) -> None:
    """Give the lines of a step's newest attempt to `write`; with `follow`, also of those to come, until the step ends.

    Args:
        num_lines: only the last ones of what is there already.

    Raises:
        UserError: the API refuses, or the log is gone or not to be had yet.
    """
    given: dict[str, int] = {}
    told: set[str] = set()
    first = True
    while True:
        # Looked at before the lines, so that what was printed before the end is not missed.
        over = not follow or step.status != "Executing"
        missing: list[Attempt] = []
        for attempts in step.programs:
            # Who follows sees each attempt that began since.
            begun = next((place for place, each in enumerate(attempts) if each.pod in given), len(attempts) - 1)
            for attempt in attempts[begun:]:
                lines = output.lines(execution.id, attempt)
                if lines is None:
                    lines = []
                    missing.append(attempt)
                start = given.get(attempt.pod, 0)
                if first and num_lines is not None:
                    start = max(len(lines) - num_lines, 0)
                for text in lines[start:]:
                    write(Line(attempt.pod, text))
                given[attempt.pod] = max(len(lines), start)
        first = False
        if over:
            break
        for said in (_not_yet(execution, each) for each in missing if not each.is_over):
            if said not in told:
                told.add(said)
                print(said, file=sys.stderr, flush=True)
        pause(POLL_SECONDS)
        execution = describe(api, execution.pipeline, execution.id)
        step = next((each for each in execution.steps if each.name == step.name), step)
    if missing:
        raise UserError(_gone(missing[0], output) if missing[0].is_over else _not_yet(execution, missing[0]))


def _not_yet(execution: Execution, attempt: Attempt) -> str:
    kubectl = ["kubectl", *(["-n", execution.pods_in] if execution.pods_in else [])]
    if attempt.pending is not None:
        why = shlex.join([*kubectl, "describe", "pod", attempt.pod])
        return f"Pod {attempt.pod} is pending ({attempt.pending}) and has no log yet. More about it: {why}"
    return (
        f"Pod {attempt.pod} runs, and this installation shows its log here once it has ended. Meanwhile: "
        f"{shlex.join([*kubectl, 'logs', attempt.pod, '-c', 'main', '-f'])}"
    )


def _gone(attempt: Attempt, output: Output) -> str:
    if output.problem is not None:
        return f"The log of pod {attempt.pod} is kept in the storage, which cannot be read: {output.problem}"
    return (
        f"The log of pod {attempt.pod} is gone: it ended before its log was kept, as a pod does that is deleted or "
        "stopped, and the cluster has archived none."
    )
