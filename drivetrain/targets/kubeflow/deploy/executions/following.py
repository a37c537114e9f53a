"""An execution as its followers see it, and the output of its steps' programs, from where it is kept.

Each source gives a log whole, so that following asks again and shows what has been added. The launcher writes an output
to the root as `executor-logs-N`, N by attempt from 2.17.0 on, once the program has ended; from there on it stays. The
API server's log address has the whole pod's log: of an ended pod from the cluster's archive, of one that runs only in a
multi-user installation (before 2.17.0 it has nothing).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from drivetrain.aws.s3 import Patience
from drivetrain.base.errors import UserError
from drivetrain.base.masking import without_secrets
from drivetrain.deploying.following import LogLine, Wait
from drivetrain.deploying.runs import RemoteRun, RemoteStep
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.starting_point import FIRST_BYTES, starting_point
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.executions.executions import describe
from drivetrain.targets.kubeflow.deploy.executions.steps import PodStep
from drivetrain.targets.kubeflow.deploy.executions.workflow import Attempt
from drivetrain.targets.kubeflow.deploy.objects import Objects
from drivetrain.targets.kubeflow.deploy.rest import Api, ApiError

MAX_LOG = 64 * 1024 * 1024
MAX_REASON_BYTES, REASON_LINES, MAX_LINE = 64 * 1024, 14, 1_024
MAX_EXPLAINED = 3
"""Failed steps whose programs' last lines are read."""
# Argo's and the launcher's own lines in a pod's log; after the program come those of launcher_v2.go and main.go.
_PLATFORM = re.compile(
    r'time="?\S+ level=\w+ msg=.*argo=true|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ (?P<file>\w+\.go):\d+\] (?P<said>.*)'
)


class Output:
    """Programs' output at one place. The storage is asked until it fails once."""

    def __init__(self, api: Api, storage: str | None) -> None:
        self._api, self._storage = api, storage
        self._objects: Objects | None = None
        self._read: dict[str, tuple[str, ...]] = {}
        self._starts: dict[str, str] = {}
        self.problem: UserError | None = None
        """Why the storage cannot be read."""

    def lines(self, run: str, attempt: Attempt, most: int = MAX_LOG, *, first: bool = False) -> list[str] | None:
        """The lines so far; of a program that runs, those that are complete. None where they are nowhere.

        Args:
            most: bytes that are read from the end of a kept output.
            first: read them from its beginning.
        """
        kept = self._kept(attempt, most, first) if attempt.is_over else None
        return self._of_pod(run, attempt) if kept is None else kept

    def explained(self, run: str, steps: tuple[PodStep, ...]) -> tuple[PodStep, ...]:
        """The steps; the first that failed by their programs have these programs' last lines, and trainings what they
        start from."""
        found = [replace(step, starts=self._starting_point(run, step)) for step in steps]
        failed = [place for place, step in enumerate(steps) if step.status == "Failed" and step.failed_by is not None]
        for place in failed[:MAX_EXPLAINED]:
            attempt = found[place].failed_by
            assert attempt is not None
            if attempt.pod not in self._read:
                lines = self.lines(run, attempt, MAX_REASON_BYTES) or ()
                said = (_PLATFORM.sub(r"\g<said>", line)[:MAX_LINE] for line in lines)
                told = [line for line in said if line.strip()]
                self._read[attempt.pod] = tuple(without_secrets(line) for line in told[-REASON_LINES:])
            if output := self._read[attempt.pod]:
                first, *others = found[place].messages or ("",)
                reason = "\n".join(filter(None, (first, *output))) + "".join(f" ({each})" for each in others)
                found[place] = replace(found[place], reason=reason)
        return tuple(found)

    def _starting_point(self, run: str, step: PodStep) -> str:
        """Read what a training's newest attempt starts from, as its log says; empty for a training in a loop, where
        each iteration says its own."""
        if not step.trains or len(step.programs) != 1 or (attempt := step.programs[0][-1]).pending:
            return ""
        if attempt.pod not in self._starts:
            lines = self.lines(run, attempt, FIRST_BYTES, first=True)
            if lines is None:
                return "its log cannot be read" if attempt.is_over and self.problem else ""
            log = "\n".join(lines)[:FIRST_BYTES]
            found = without_secrets(starting_point(log))
            if not found and not attempt.is_over and len(log) < FIRST_BYTES:
                return ""  # it may say it yet
            self._starts[attempt.pod] = found
        return self._starts[attempt.pod]

    def _kept(self, attempt: Attempt, most: int, first: bool) -> list[str] | None:
        """The output of an attempt that the launcher kept."""
        if attempt.log is None or not attempt.log.startswith("s3://") or self.problem is not None:
            return None
        try:
            # No retries, so that a user without access to the storage does not wait for it.
            self._objects = self._objects or Objects(self._storage, Patience(seconds=0.0, stall_seconds=60.0))
            for uri in (f"{attempt.log}-{attempt.number}", attempt.log):
                content = self._objects.part(uri, most, first=first)
                if content is not None:
                    lines = content.decode(errors="replace").split("\n")
                    return lines if lines[-1] else lines[:-1]
        except UserError as error:
            self.problem = error
        return None

    def _of_pod(self, run: str, attempt: Attempt) -> list[str] | None:
        # An archived log has the node's name, one that grows the pod's.
        try:
            text = service.pod_log(self._api, run, attempt.node if attempt.is_over else attempt.pod)
        except ApiError as error:
            if error.status in (404, 500):
                return None
            raise
        if not text or _is_error(text):
            return None
        lines = text.split("\n")
        printed = program_lines(lines if attempt.is_over and lines[-1] else lines[:-1])
        # Where no program could begin, the platform's lines say why.
        return printed or (text.splitlines() if attempt.is_over else [])


def program_lines(lines: list[str]) -> list[str]:
    """The lines of a pod's log that its program printed, without the platform's before and after them."""
    begun: list[str] = []
    for line in lines:
        found = _PLATFORM.match(line)
        if found is None:
            begun.append(line)
        elif begun or found["file"] == "launcher_v2.go" or "failed to execute" in (found["said"] or ""):
            break
    return begun


def _is_error(text: str) -> bool:
    """True where the log address says that it has no log: always with status 200, and as JSON."""
    if not text.startswith('{"error_message"'):
        return False
    try:
        return "error_message" in json.loads(text)
    except ValueError:
        return False  # a program printed it


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
