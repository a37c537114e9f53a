"""An execution as its followers see it, and the logs of its steps in CloudWatch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from drivetrain.base.masking import without_secrets
from drivetrain.deploying.following import LogLine, Wait
from drivetrain.deploying.runs import RemoteRun, RemoteStep
from drivetrain.run_store import starting_point as said_at_start
from drivetrain.run_store.model import Metric, StepRun
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.executions.execution_jobs import JobFacts, JobStep, job_of
from drivetrain.targets.sagemaker.deploy.executions.executions import definition_of, describe
from drivetrain.targets.sagemaker.refusals import AbsentError

AFTER_SECONDS = 1.0
"""Seconds after a Lambda's answer in which its log may still come, since clocks differ a little."""
STAMPS_ARE_LATE_SECONDS = 6 * 3600
"""The time of a stream's last event is late, by less than an hour as a rule.
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_LogStream.html"""
_FIRST_EVENTS = 200


class FollowedExecution:
    """An execution that is looked at again and again."""

    def __init__(self, account: Account, arn: str) -> None:
        self._account, self._arn = account, arn
        self._ended: dict[str | None, JobFacts] = {}

    def look(self, *, closely: bool = False) -> RemoteRun:
        now = describe(self._account, self._arn)
        return replace(now, steps=tuple(map(self._with_job, now.steps))) if closely else now

    def _with_job(self, step: RemoteStep) -> RemoteStep:
        """The step with its job, which is asked for until the step has ended."""
        assert isinstance(step, JobStep)
        job = self._ended.get(step.arn) or job_of(self._account, step)
        if job is None:
            return step
        if step.has_ended:
            self._ended[step.arn] = job
        return replace(step, job=job, logged={name: Metric(value=value) for name, value in job.metrics.items()})

    def planned(self, run: RemoteRun) -> Sequence[StepRun]:
        steps = definition_of(self._account, self._arn).walk()
        return [StepRun(name=step.name, type=step.type, title=step.display_name or step.name) for step in steps]

    def followed(self, wait: Wait) -> AbstractContextManager[None]:
        return self._account.followed(wait)

    def log(self, run: RemoteRun, step: RemoteStep, num_lines: int | None) -> StepLog:
        assert isinstance(step, JobStep)
        return StepLog(self._account, step, run.id, num_lines)


class StepLog:
    """Reads what is new, host by host."""

    def __init__(self, account: Account, step: JobStep, run: str = "", num_lines: int | None = None) -> None:
        assert step.log_group is not None, "a step without a log is refused before"
        self.account = account
        self.step = step
        """As it was looked at last."""
        self.group = step.log_group
        self._run, self._num_lines = run, num_lines
        self._tokens: dict[str, str] = {}
        self._looks = 0
        self._problem: str | None = None

    @property
    def prefix(self) -> str | None:
        """The prefix of the step's log streams; None for a Lambda."""
        return None if self.step.type == "Lambda" else f"{self.step.job_name}/"

    @property
    def _span(self) -> dict[str, int]:
        """A Lambda's streams are those of its instances; what ran before and after the step is not this step's."""
        step = self.step
        if self.prefix is not None or step.started is None:
            return {}
        found = {"startTime": int(step.started * 1000)}
        return found if step.ended is None else {**found, "endTime": int((step.ended + AFTER_SECONDS) * 1000)}

    def new_lines(self, step: RemoteStep) -> Iterator[LogLine]:
        """In the order of time, host by host."""
        assert isinstance(step, JobStep)
        if step.arn != self.step.arn:  # it is tried again, by another job
            yield from self._new_lines()
            self._tokens = {}
        self.step = step
        lines = self._new_lines()
        self._looks += 1
        first, self._problem = self._looks == 1, None
        if first and not lines:
            why = "has no log: nothing was written" if step.has_ended else "has no log yet; --follow waits for it"
            self._problem = f"Step {step.name!r} of {self._run} {why} (log group {self.group})."
        yield from lines[max(len(lines) - self._num_lines, 0) :] if first and self._num_lines is not None else lines

    def waits(self) -> Sequence[str]:
        return ()

    def problem(self) -> str | None:
        return self._problem

    def _new_lines(self) -> list[LogLine]:
        found: list[LogLine] = []
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

    def page(self, stream: str, **more: Any) -> dict[str, Any]:
        """Events of a stream, the oldest first, as the service gives them at once."""
        return self.account.call(
            "logs",
            "get_log_events",
            about=f"log stream {stream}",
            logGroupName=self.group,
            logStreamName=stream,
            startFromHead=True,
            **more,
        )

    def _read(self, stream: str) -> Iterator[LogLine]:
        host = stream.rpartition("/")[2].rpartition("-")[0] or stream
        while True:
            token = self._tokens.get(stream)
            said = self.page(stream, **({} if token is None else {"nextToken": token}), **self._span)
            for event in said["events"]:
                yield LogLine(host, str(event["message"]).rstrip("\n"), event["timestamp"] / 1000)
            # The end is where the same token comes back.
            if said["nextForwardToken"] == token:
                return
            self._tokens[stream] = said["nextForwardToken"]


def starting_point(account: Account, step: JobStep) -> str:
    """Read the starting point at the beginning of a training's log: `starts from nothing (there is no earlier model)`;
    empty if it says nothing.

    Raises:
        ServiceError: AWS refuses.
    """
    log = StepLog(account, step)
    for stream in log.streams()[:1]:
        for event in log.page(stream, limit=_FIRST_EVENTS)["events"]:
            if found := said_at_start.starting_point(str(event["message"])):
                return without_secrets(found)
    return ""
