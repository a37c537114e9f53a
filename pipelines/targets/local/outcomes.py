"""How a step ends: with a result, or by one of two exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drivetrain.pipelines.targets.local.ledger_writer import ArtifactEntry
    from drivetrain.pipelines.targets.local.outputs import Publication

# The words of the service's retry policies that a local run has a use for.
JOB_INTERNAL_ERROR = "SageMaker.JOB_INTERNAL_ERROR"
CAPACITY_ERROR = "SageMaker.CAPACITY_ERROR"


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """A step succeeded.

    `response` is what the service's describe call would say of it, `value` the result in a word for people,
    `publication` what goes into the store, `inputs` what was read from it.
    """

    response: Mapping[str, Any]
    value: str | None = None
    publication: Publication | None = None
    inputs: tuple[ArtifactEntry, ...] = field(default=())


class StepFailedError(Exception):
    """A step failed. `error_type` is the retry policies' word for it; None for a failure that is the program's own."""

    def __init__(self, reason: str, error_type: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error_type = error_type


class StepStoppedError(Exception):
    """The user stopped the run while the step was at work."""
