"""An execution as its followers see it, and the logs of its steps.

Each source gives a log whole, so that following asks again and shows what has been added.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from drivetrain.deploying.following import LogLine, Wait
from drivetrain.deploying.runs import RemoteRun, RemoteStep
from drivetrain.run_store.model import StepRun
from drivetrain.targets.kubeflow.deploy.executions.executions import describe
from drivetrain.targets.kubeflow.deploy.executions.output import Output
from drivetrain.targets.kubeflow.deploy.executions.steps import PodStep
from drivetrain.targets.kubeflow.deploy.executions.workflow import Attempt
from drivetrain.targets.kubeflow.deploy.rest import Api


@dataclass(frozen=True)
class FollowedExecution:
    """An execution that is looked at again and again."""

    api: Api
    output: Output
    pipeline: str
    id: str

    def look(self, *, closely: bool = False) -> RemoteRun:
        return describe(self.api, self.pipeline, self.id, self.output.explained if closely else None)

    def planned(self, run: RemoteRun) -> Sequence[StepRun]:
        return run.planned

    def followed(self, wait: Wait) -> AbstractContextManager[None]:
        return self.api.followed()

    def log(self, run: RemoteRun, step: RemoteStep, num_lines: int | None) -> StepLog:
        return StepLog(self.output, run.id, num_lines)


class StepLog:
    """Reads the newest attempt of each iteration, and those that begin while it is followed."""

    def __init__(self, output: Output, run: str, num_lines: int | None = None) -> None:
        self._output, self._run, self._num_lines = output, run, num_lines
        self._given: dict[str, int] = {}
        self._missing: list[Attempt] = []

    def new_lines(self, step: RemoteStep) -> Iterator[LogLine]:
        assert isinstance(step, PodStep)
        self._missing = []
        for attempts in step.programs:
            begun = next((place for place, each in enumerate(attempts) if each.pod in self._given), len(attempts) - 1)
            for attempt in attempts[begun:]:
                for text in self._new_of(attempt):
                    yield LogLine(attempt.pod, text)
        self._num_lines = None

    def _new_of(self, attempt: Attempt) -> list[str]:
        lines = self._output.lines(self._run, attempt)
        if lines is None:
            lines = []
            self._missing.append(attempt)
        start = self._given.get(attempt.pod, 0)
        if self._num_lines is not None:
            start = max(len(lines) - self._num_lines, 0)
        self._given[attempt.pod] = max(len(lines), start)
        return lines[start:]

    def waits(self) -> Sequence[str]:
        return [_not_yet(each) for each in self._missing if not each.is_over]

    def problem(self) -> str | None:
        """Why the log is gone, or is not to be had yet."""
        if not self._missing:
            return None
        first = self._missing[0]
        return _gone(first, self._output) if first.is_over else _not_yet(first)


def _not_yet(attempt: Attempt) -> str:
    kubectl = ["kubectl", *(["-n", attempt.namespace] if attempt.namespace else [])]
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
