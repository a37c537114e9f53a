"""What a tuning searches, and how: ranges of hyperparameters, the objective, the limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from drivetrain.catalog import quotas
from drivetrain.spec.frozen import Frozen, FrozenMap
from drivetrain.spec.values import TYPE_OF_SCALAR, ParameterRef, Scalar, ValueType

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
        """What all of the values are; String of values of several types."""
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
