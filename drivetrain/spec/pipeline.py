"""The pipeline: the one language between an author and a target."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from drivetrain.catalog import quotas
from drivetrain.spec.deployment import Deployment
from drivetrain.spec.frozen import Frozen, FrozenDict, FrozenMap
from drivetrain.spec.resources import CachePolicy
from drivetrain.spec.steps import Step
from drivetrain.spec.triggers import Trigger
from drivetrain.spec.values import ParameterRef, Pending, Scalar, ValueType


class Parameter(Pending):
    """A value given when the pipeline is started; it can be used wherever a literal can."""

    name: str
    type: ValueType
    default: Scalar | None = None
    choices: tuple[Scalar, ...] = ()

    @classmethod
    def string(cls, name: str, default: str | None = None, choices: tuple[str, ...] = ()) -> Parameter:
        return cls(name=name, type="String", default=default, choices=choices)

    @classmethod
    def integer(cls, name: str, default: int | None = None, choices: tuple[int, ...] = ()) -> Parameter:
        return cls(name=name, type="Integer", default=default, choices=choices)

    @classmethod
    def number(cls, name: str, default: float | None = None, choices: tuple[float, ...] = ()) -> Parameter:
        return cls(name=name, type="Float", default=default, choices=choices)

    @classmethod
    def boolean(cls, name: str, default: bool | None = None) -> Parameter:
        return cls(name=name, type="Boolean", default=default)

    def ref(self) -> ParameterRef:
        """What stands for the value in steps and conditions."""
        return ParameterRef(name=self.name, type=self.type)

    def described(self) -> str:
        return self.ref().described()


class Pipeline(Frozen):
    """Steps that compose into a DAG; references between them are its edges. Plain data: authors build one that is
    checked (drivetrain.authoring.pipeline)."""

    name: str
    steps: tuple[Step, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    display_name: Annotated[str, Field(max_length=quotas.MAX_DISPLAY_NAME_CHARACTERS)] | None = None
    description: Annotated[str, Field(max_length=quotas.MAX_DESCRIPTION_CHARACTERS)] | None = None
    deployment: Deployment = Deployment()
    cache: CachePolicy = CachePolicy()
    tags: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Of the pipeline itself, an argument of the create call. Jobs get those of their step, and of their
    target's block."""
    triggers: tuple[Trigger, ...] = ()
    max_parallel_steps: Annotated[int, Field(ge=1)] | None = None
    """An argument of the start call, not of the definition."""
