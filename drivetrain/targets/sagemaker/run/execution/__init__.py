"""One execution: which step runs next, with which values, and how each step ends. Here are the values that an
expression may ask of it, and the two exceptions by which a step ends without success.
"""

from __future__ import annotations

import time
from typing import Any

from drivetrain.base.errors import did_you_mean
from drivetrain.run_store.statuses import Facts, moment
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


def execution_field(facts: Facts, name: str, now: float | None = None) -> Any:
    """A value of `Execution.<name>`; `now` is what CurrentDateTime is, where that is not the time of day.

    Raises:
        UnresolvedReference: there is no such value.
    """
    values = {
        "PipelineName": facts.pipeline,
        "PipelineArn": facts.pipeline_arn,
        "PipelineExecutionId": facts.id,
        "PipelineExecutionArn": facts.execution_arn,
        "StartDateTime": moment(facts.started),
        "CurrentDateTime": moment(time.time() if now is None else now),
    }
    if name not in values:
        raise UnresolvedReference(f"an execution has no {name!r}. {did_you_mean(name, EXECUTION_FIELDS)}")
    return values[name]
