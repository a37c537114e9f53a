"""What the pods of a step printed.

The API gives a log whole, so that following asks again and shows what has been added.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.executions.executions import Execution, describe
from drivetrain.targets.kubeflow.deploy.executions.steps import StepRun
from drivetrain.targets.kubeflow.deploy.rest import Api, ApiError

POLL_SECONDS = 5.0


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
                else f"No step of execution {execution.id} has begun."
            )
        if not step.pods:
            why = "its result comes from the cache" if step.status == "Cached" else "it has no pod"
            raise UserError(f"Step {name!r} of {execution.id} has no log: {why}.")
        return step
    logged = [each for each in execution.steps if each.pods]
    if not logged:
        raise UserError(f"No step of execution {execution.id} has a log yet.")
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
    while True:
        try:
            return execution, step_with_log(execution, name)
        except UserError:
            begun = next((each for each in execution.steps if name in (each.name, each.title)), None)
            if not execution.is_going or (begun is not None and begun.status != "Executing"):
                raise
        pause(POLL_SECONDS)
        execution = describe(api, execution.pipeline, execution.id)


def read_log(
    api: Api,
    execution: Execution,
    step: StepRun,
    write: Callable[[Line], object],
    *,
    follow: bool = False,
    num_lines: int | None = None,
    pause: Callable[[float], object] = lambda seconds: time.sleep(seconds),
) -> None:
    """Give a step's lines to `write`; with `follow`, until the step ends.

    Args:
        num_lines: only the last ones of what is there already.

    Raises:
        UserError: the API refuses, or the pod and its log are gone.
    """
    given: dict[str, int] = {}
    first = True
    while True:
        # Looked at before the lines, so that what was printed before the end is not missed.
        over = not follow or step.status != "Executing"
        for pod in step.pods:
            lines = _lines(api, execution.id, pod, whole=over)
            start = given.get(pod, 0)
            if first and num_lines is not None:
                start = max(len(lines) - num_lines, 0)
            for text in lines[start:]:
                write(Line(pod, text))
            given[pod] = max(len(lines), start)
        first = False
        if over:
            return
        pause(POLL_SECONDS)
        now = describe(api, execution.pipeline, execution.id)
        step = next((each for each in now.steps if each.name == step.name), step)


def _lines(api: Api, run: str, pod: str, *, whole: bool) -> list[str]:
    """The lines so far; of a pod that still prints, those that are complete."""
    try:
        text = service.pod_log(api, run, pod)
    except ApiError as error:
        if error.status in (404, 500):
            if not whole:  # its container has not begun
                return []
            raise UserError(
                f"Pod {pod} and its log are gone: {error} A cluster keeps logs of ended pods where its administrator "
                "switched archiving on (ARCHIVE_CONFIG_LOG_FILE_NAME)."
            ) from None
        raise
    lines = text.split("\n")
    return lines[:-1] if not whole or not lines[-1] else lines
