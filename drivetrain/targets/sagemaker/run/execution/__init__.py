"""One execution: which step runs next, with which values, and how each step ends. Here is what one is called, names and
ARNs in the service's own form, and the two exceptions by which a step ends without success.
"""

from __future__ import annotations

import hashlib
import re
import time
from typing import Any

from drivetrain.base import partition_of
from drivetrain.base.errors import did_you_mean
from drivetrain.base.records import dataclass
from drivetrain.catalog.quotas import MAX_JOB_NAME_CHARACTERS
from drivetrain.targets.sagemaker.document.expressions import EXECUTION_FIELDS, UnresolvedReference

# The words of the service's retry policies that a local run has a use for.
JOB_INTERNAL_ERROR = "SageMaker.JOB_INTERNAL_ERROR"
CAPACITY_ERROR = "SageMaker.CAPACITY_ERROR"


class StepFailedError(Exception):
    """A step failed. `error_type` is the retry policies' word for it; None for a failure that is the program's own."""

    def __init__(self, reason: str, error_type: str | None = None) -> None:
        # Perhaps it quotes a name that is no text (bytes that are not UTF-8), which the ledger could not hold.
        self.reason = reason.encode("utf-8", "backslashreplace").decode()
        super().__init__(self.reason)
        self.error_type = error_type


class StepStoppedError(Exception):
    """The user stopped the run while the step was at work."""


def for_run(text: str, execution: str) -> str:
    """A program's message with the run's id filled into its advice (`drivetrain runs resume ID`)."""
    return text.replace("drivetrain runs resume ID", f"drivetrain runs resume {execution}")


# How every job of a pipeline is called on the service, too.
JOB_PREFIX = "pipelines-"


@dataclass(frozen=True)
class Facts:
    """The identity of one execution; `started` in seconds since the epoch."""

    id: str
    pipeline: str
    region: str
    account: str
    started: float

    def arn(self, resource: str, service: str = "sagemaker") -> str:
        return f"arn:{partition_of(self.region)}:{service}:{self.region}:{self.account}:{resource}"

    @property
    def execution_arn(self) -> str:
        return self.arn(f"pipeline/{self.pipeline.lower()}/execution/{self.id}")

    def job_name(self, step: str) -> str:
        """The name of a step's job. It says nothing of the attempt, so that a repeated one writes to the same place."""
        plain = re.sub(r"[^A-Za-z0-9]+", "-", step).strip("-")
        name = f"{JOB_PREFIX}{self.id}-{plain}"
        if plain == step and len(name) <= MAX_JOB_NAME_CHARACTERS:
            return name
        # What was changed or cut must not make two steps' names equal.
        mark = hashlib.sha256(step.encode()).hexdigest()[:8]
        return f"{name[: MAX_JOB_NAME_CHARACTERS - 9].rstrip('-')}-{mark}"

    def field(self, name: str, now: float | None = None) -> Any:
        """A value of `Execution.<name>`; `now` is what CurrentDateTime is, where that is not the time of day.

        Raises:
            UnresolvedReference: there is no such value.
        """
        values = {
            "PipelineName": self.pipeline,
            "PipelineArn": self.arn(f"pipeline/{self.pipeline.lower()}"),
            "PipelineExecutionId": self.id,
            "PipelineExecutionArn": self.execution_arn,
            "StartDateTime": _date(self.started),
            "CurrentDateTime": _date(time.time() if now is None else now),
        }
        if name not in values:
            raise UnresolvedReference(f"an execution has no {name!r}. {did_you_mean(name, EXECUTION_FIELDS)}")
        return values[name]


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
