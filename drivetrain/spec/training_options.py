"""Further options of SageMaker for a training job: how its data comes, how long it waits, who looks at it; and for a
tuning, what it searches and how: ranges of hyperparameters, the objective, the limits.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from drivetrain.catalog import quotas
from drivetrain.spec import Frozen, FrozenDict, FrozenMap
from drivetrain.spec.resources import Mlflow
from drivetrain.spec.values import TYPE_OF_SCALAR, ParameterRef, Scalar, ValueType


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
    """The mode of all channels but the code's and those on a file system (`fsx://`, `efs://`)."""
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
    """The MLflow server that this job itself reports to, beside the deployment's for executions."""


Scale = Literal["Auto", "Linear", "Logarithmic", "ReverseLogarithmic"]


class Between(Frozen):
    """A number from `low` to `high`, both included: a whole one where both are whole numbers."""

    kind: Literal["between"] = "between"
    low: int | float
    high: int | float
    scale: Scale = "Auto"

    @model_validator(mode="after")
    def _check(self) -> Between:
        if self.low > self.high:
            raise ValueError(f"between({self.low}, {self.high}): the lower bound comes first.")
        if self.scale == "Logarithmic" and self.low <= 0:
            raise ValueError(f"between({self.low}, {self.high}): a logarithmic scale needs values above 0.")
        if self.scale == "ReverseLogarithmic" and (self.whole or not (self.low >= 0 and self.high < 1)):
            raise ValueError(f"between({self.low}, {self.high}): a reverse logarithmic scale needs 0 <= x < 1.")
        return self

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def value_type(self) -> ValueType:
        return "Integer" if self.whole else "Float"


class OneOf(Frozen):
    """One of these values."""

    kind: Literal["one-of"] = "one-of"
    values: Annotated[tuple[Scalar, ...], Field(min_length=1, max_length=quotas.MAX_TUNED_VALUES)]

    @model_validator(mode="after")
    def _check(self) -> OneOf:
        texts = list(map(repr, self.values))
        if doubled := [text for text in texts if texts.count(text) > 1]:
            raise ValueError(f"{doubled[0]} stands twice among the values.")
        return self

    @property
    def value_type(self) -> ValueType:
        """The type of all values; String for several types."""
        types: set[ValueType] = {TYPE_OF_SCALAR[type(value)] for value in self.values}
        if types == {"Integer", "Float"}:
            return "Float"
        return types.pop() if len(types) == 1 else "String"


Range = Annotated[Between | OneOf, Field(discriminator="kind")]


class Search(Frozen):
    """A search for the hyperparameters with the best objective, as the service's HyperParameterTuningJobConfig has it.

    `max_trainings` is None for a grid, which has as many as there are combinations. The rest ends a search before: a
    `target` of the objective, `patience` trainings in a row that were not better than the best by 1 %, seconds of wall
    time.
    """

    objective: str
    maximize: bool
    ranges: FrozenMap[Range]
    strategy: Literal["Bayesian", "Random", "Grid", "Hyperband"] = "Bayesian"
    max_trainings: int | ParameterRef | None = None
    max_parallel: int | ParameterRef = 1
    early_stopping: bool = False
    seed: Annotated[int, Field(ge=0)] | None = None
    target: float | None = None
    patience: Annotated[int, Field(ge=3)] | None = None
    max_seconds: Annotated[int, Field(ge=120, le=15_768_000)] | None = None
    epochs: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = None
    """Hyperband's least and most epochs."""
