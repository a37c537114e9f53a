"""Rules for spot machines, checkpoints and time limits together, for a definition from any source.

https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training.html and
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html; what is not known before the run
is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drivetrain.base.json_text import object_in

SPOT, WAIT, RUN = "EnableManagedSpotTraining", "MaxWaitTimeInSeconds", "MaxRuntimeInSeconds"
_DEFAULT_MAX_RUN_S = 86_400  # the service's


def spot_problems(where: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """One sentence a problem, with what to do."""
    spot = arguments.get(SPOT, False)
    stopping = object_in(arguments, "StoppingCondition")
    wait, run = stopping.get(WAIT), stopping.get(RUN, _DEFAULT_MAX_RUN_S)
    for name in (RUN, WAIT):
        if isinstance(given := stopping.get(name), str | bool | float):
            yield (
                f"{where}: StoppingCondition.{name} is {given!r:.80}; the service takes a whole number of seconds. "
                "Write it without quotes, such as 3600."
            )
    if spot is False and wait is not None:
        yield (
            f"{where}: StoppingCondition.{WAIT} is set and {SPOT} is not: the service rejects that. Set {SPOT} to "
            f"true, or remove {WAIT}."
        )
    if spot is True and wait is None:
        yield (
            f"{where}: {SPOT} without StoppingCondition.{WAIT}: the service rejects that. Set it to {run} or more: the "
            "seconds that the job may take with the time in which it waits for machines."
        )
    if spot is True and _is_whole(wait) and _is_whole(run) and wait < run:
        yield (
            f"{where}: StoppingCondition.{WAIT} ({wait}) is less than {RUN} ({run}), which it includes. Raise the "
            "first or lower the second."
        )
    checkpoint = arguments.get("CheckpointConfig")
    if spot is True and not checkpoint:
        yield (
            f"{where}: {SPOT} without CheckpointConfig: an interruption would lose everything. Give it a "
            "CheckpointConfig with an S3Uri, and keep checkpoints in its LocalPath."
        )
    uri = object_in(arguments, "CheckpointConfig").get("S3Uri")
    if isinstance(uri, str) and uri.startswith("s3://") and not uri.endswith("/"):
        yield (
            f"{where}: CheckpointConfig.S3Uri is {uri!r:.200}: without a final slash it also brings the checkpoints of "
            f"every sibling whose name begins so. Write {uri + '/'!r:.200}."
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
