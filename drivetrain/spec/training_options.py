"""What else SageMaker can do for a training job: how its data comes, how long it waits, who looks at it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from drivetrain.catalog import quotas
from drivetrain.spec.frozen import Frozen, FrozenDict, FrozenMap
from drivetrain.spec.resources import Mlflow


def _no_pipe(mode: Any) -> Any:
    if mode == "Pipe":
        # Not a ValueError, before whose message pydantic writes its own word.
        raise PydanticCustomError(
            "pipe",
            "Pipe gives a program named pipes that are read once from front to end, where ours open files. FastFile "
            "streams as well: files come from S3 as they are read",
        )
    return mode


InputMode = Annotated[Literal["File", "FastFile"], BeforeValidator(_no_pipe)]
"""File: all is copied before the program starts. FastFile: a file comes from S3 as it is read."""


class Debugger(Frozen):
    """SageMaker Debugger and Profiler beside the health rules: the service's own rules of the same meaning.

    Debugger is closed since 2026-07-30 to accounts that had not used it, and Profiler ends on 2027-06-30.
    """

    rules: tuple[str, ...] = ()
    """Health rules by their names; unless given, all that the service has, without those that `health_rules` turns
    off."""
    save_every: Annotated[int, Field(ge=1)] = 500
    """Steps between two that smdebug's hook in the script saves."""
    collections: FrozenMap[FrozenMap[str]] = Field(default_factory=FrozenDict)
    """Further collections of the hook's, or other parameters of those that the rules need: name -> parameter -> value,
    as in `{"labels": {"include_regex": ".*target.*"}}`."""


class TrainingOptions(Frozen):
    """Options of one training job. What a job of any kind has is in its Cluster and the Deployment."""

    input_mode: InputMode = "File"
    """Of all channels but the code's and those on a file system (`fsx://`, `efs://`)."""
    input_modes: FrozenMap[InputMode] = Field(default_factory=FrozenDict)
    """Input -> its own mode."""
    max_pending_seconds: Annotated[int, Field(ge=quotas.PENDING_SECONDS[0], le=quotas.PENDING_SECONDS[1])] | None = None
    """How long the job may wait for accelerated machines before it is stopped."""
    job_retries: Annotated[int, Field(ge=1, le=quotas.MAX_JOB_RETRIES)] | None = None
    """How often SageMaker starts the job again after an error of its own; a step's `retry` makes a new job."""
    remote_debug: bool = False
    """A shell into the containers, through AWS Systems Manager, for those who may start its sessions."""
    tensorboard: bool = False
    """Copy TensorBoard's files to S3 while the training runs, to `<step>/<execution>/tensorboard`."""
    debugger: Debugger | None = None
    """The service's own rules and what its hook saves, to `<step>/debugger`."""
    mlflow: Mlflow | None = None
    """Where this job reports to by itself, beside what the deployment says of executions."""
