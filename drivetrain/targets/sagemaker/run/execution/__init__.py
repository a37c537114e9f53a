"""One execution: which step runs next, with which values, and how each step ends. Here are the two exceptions by which
a step ends without success."""

from __future__ import annotations

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
