"""The logs of a step's job in CloudWatch, as they are or as they grow."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.masking import without_secrets
from drivetrain.run_store import events
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.executions.executions import Execution, StepRun, definition_of, describe
from drivetrain.targets.sagemaker.deploy.executions.following import ENDED, Wait
from drivetrain.targets.sagemaker.document.step_types import JOBS_OF_METADATA
from drivetrain.targets.sagemaker.refusals import AbsentError

POLL_SECONDS = 3.0
AFTER_SECONDS = 1.0
"""What a Lambda logs comes before its answer, and the clocks differ a little."""
STAMPS_ARE_LATE_SECONDS = 6 * 3600
"""The time of a stream's last event is late, by less than an hour as a rule.
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_LogStream.html"""


_FIRST_EVENTS = 200


@dataclass(frozen=True)
class Line:
    """One line: of which host (`algo-1`), when (seconds since the epoch), what."""

    host: str
    time: float
    text: str


def step_with_logs(execution: Execution, name: str | None) -> StepRun:
    """The step that was named, else the one that a person wants to read about: failed, running, the last one.

    Raises:
        UserError: there is no such step, it has not begun, or it starts no program.
    """
    logged = [step for step in execution.steps if _group(step) is not None]
    if name is not None:
        step = next((step for step in execution.steps if step.name == name), None)
        if step is None:
            begun = [step.name for step in execution.steps]
            close = difflib.get_close_matches(name, begun, n=1)
            said = f"{f'Did you mean {close[0]!r}? ' if close else ''}Begun: {', '.join(begun) or 'none'}."
            raise UserError(f"No step {name!r} has begun in execution {execution.id}. {said}")
        if _group(step) is None:
            why = f"it is taken from {step.cached_from}" if step.cached_from else "it starts no program"
            raise UserError(f"Step {name!r} of {execution.id} has no log: {why}.")
        return step
    if not logged:
        raise UserError(f"No step of execution {execution.id} has a log yet.")
    for status in ("Failed", "Executing"):
        for step in logged:
            if step.status == status:
                return step
    return logged[-1]


def awaited_step(
    account: Account, execution: Execution, name: str | None, wait: Wait = time.sleep
) -> tuple[Execution, StepRun]:
    """As `step_with_logs`, for who follows: a step that has not begun is waited for while the execution goes on. Gives
    the execution as it is then, too.

    Raises:
        UserError: there will be no such log, or AWS refuses.
    """
    planned: set[str] | None = None
    while True:
        try:
            return execution, step_with_logs(execution, name)
        except UserError:
            begun = next((step for step in execution.steps if step.name == name), None)
            if not execution.is_going or (begun is not None and (begun.type or begun.status in ENDED)):
                raise
        if name is not None and begun is None:
            planned = planned or {step.name for step in definition_of(account, execution.arn).walk()}
            if name not in planned:
                raise UserError(f"Execution {execution.id} has no step {name!r}. {did_you_mean(name, planned)}")
        wait(POLL_SECONDS)
        execution = describe(account, execution.arn)


def _group(step: StepRun) -> str | None:
    if step.type == "Lambda" and step.job is not None:
        return f"/aws/lambda/{step.job.rpartition(':function:')[2].partition(':')[0]}"
    job = JOBS_OF_METADATA.get(step.type)
    return job.logs if job is not None and step.job is not None and step.cached_from is None else None


class StepLog:
    """Reads what is new, host by host."""

    def __init__(self, account: Account, step: StepRun) -> None:
        group = _group(step)
        assert group is not None, "step_with_logs gave it"
        self.account = account
        self.step = step
        """As it was looked at last."""
        self.group = group
        self.prefix = None if step.type == "Lambda" else f"{step.job_name}/"
        self._tokens: dict[str, str] = {}

    @property
    def _span(self) -> dict[str, int]:
        """A Lambda's streams are those of its instances; what ran before and after the step is not this step's."""
        step = self.step
        if self.prefix is not None or step.started is None:
            return {}
        found = {"startTime": int(step.started * 1000)}
        return found if step.ended is None else {**found, "endTime": int((step.ended + AFTER_SECONDS) * 1000)}

    def new_lines(self) -> list[Line]:
        """What has come since the last call, in the order of time.

        Raises:
            ServiceError: AWS refuses.
        """
        found: list[Line] = []
        for stream in self.streams():
            found += self._read(stream)
        return sorted(found, key=lambda line: line.time)

    def streams(self) -> list[str]:
        """Those that there are, by name; of a Lambda the last ones first."""
        about = f"log group {self.group}"
        since = self._span.get("startTime", 0) - STAMPS_ARE_LATE_SECONDS * 1000
        more = {"orderBy": "LastEventTime"} if self.prefix is None else {"logStreamNamePrefix": self.prefix}
        try:
            streams = self.account.pages(
                "logs", "describe_log_streams", "logStreams", about=about, logGroupName=self.group, **more
            )
            return [
                str(stream["logStreamName"]) for stream in streams if stream.get("lastEventTimestamp", since) >= since
            ]
        except AbsentError:
            return []  # the first job of its kind in the account has not logged yet

    def _read(self, stream: str) -> Iterator[Line]:
        host = stream.rpartition("/")[2].rpartition("-")[0] or stream
        while True:
            token = self._tokens.get(stream)
            said = self.account.call(
                "logs",
                "get_log_events",
                about=f"log stream {stream}",
                logGroupName=self.group,
                logStreamName=stream,
                startFromHead=True,
                **({} if token is None else {"nextToken": token}),
                **self._span,
            )
            for event in said["events"]:
                yield Line(host, event["timestamp"] / 1000, str(event["message"]).rstrip("\n"))
            # The end is where the same token comes back.
            if said["nextForwardToken"] == token:
                return
            self._tokens[stream] = said["nextForwardToken"]


def starting_point(account: Account, step: StepRun) -> str:
    """What a training's log says at its beginning: `starts from nothing (there is no earlier model)`; empty where it
    says nothing.

    Raises:
        ServiceError: AWS refuses.
    """
    for stream in StepLog(account, step).streams()[:1]:
        said = account.call(
            "logs",
            "get_log_events",
            about=f"log stream {stream}",
            logGroupName=JOBS_OF_METADATA[step.type].logs,
            logStreamName=stream,
            startFromHead=True,
            limit=_FIRST_EVENTS,
        )
        for event in said["events"]:
            if found := events.starting_point(str(event["message"])):
                return without_secrets(found)
    return ""


def read_log(
    account: Account,
    execution: Execution,
    step: StepRun,
    write: Callable[[Line], object],
    *,
    follow: bool = False,
    num_lines: int | None = None,
    wait: Wait = time.sleep,
) -> None:
    """Give a step's lines to `write`; with `follow`, until the step ends.

    Args:
        num_lines: only the last ones of what is there already.

    Raises:
        UserError: AWS refuses, or nothing was logged.
    """
    log = StepLog(account, step)
    first = True
    while True:
        # Looked at before the lines, so that what was written before the end is not missed.
        over = not follow or step.status in ENDED
        lines = log.new_lines()
        if first and not lines and over:
            ended = step.status in ENDED
            why = "has no log: nothing was written" if ended else "has no log yet; --follow waits for it"
            raise UserError(f"Step {step.name!r} of {execution.id} {why} (log group {log.group}).")
        if first and num_lines is not None:
            lines = lines[-num_lines:] if num_lines else []
        first = False
        for line in lines:
            write(line)
        if over:
            return
        wait(POLL_SECONDS)
        now = {item.name: item for item in describe(account, execution.arn).steps}
        before, step = step, now.get(step.name, step)
        if step.job == before.job:
            log.step = step
        else:  # it is tried again, by another job
            for line in log.new_lines():
                write(line)
            log = StepLog(account, step)
