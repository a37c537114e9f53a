"""The pipeline: the one language between an author and a target."""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import Field

from drivetrain.base.errors import SpecError
from drivetrain.catalog import quotas
from drivetrain.spec.frozen import Frozen, FrozenMap
from drivetrain.spec.resources import CachePolicy, Deployment
from drivetrain.spec.steps import BaseStep, Step
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
    """Steps that compose into a DAG; references between them are its edges.

    Built means checked: names, references, cycles, types and limits (`rules.py`).

    Raises:
        SpecError: naming the first broken rule and what to do.
    """

    name: str
    steps: tuple[Step, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    display_name: Annotated[str, Field(max_length=quotas.MAX_DISPLAY_NAME_CHARACTERS)] | None = None
    description: Annotated[str, Field(max_length=quotas.MAX_DESCRIPTION_CHARACTERS)] | None = None
    deployment: Deployment = Deployment()
    cache: CachePolicy = CachePolicy()
    tags: FrozenMap[str] = Field(default_factory=dict)
    """Of the pipeline itself, an argument of the create call. Jobs get `deployment.tags` and those of their step."""
    triggers: tuple[Trigger, ...] = ()
    max_parallel_steps: Annotated[int, Field(ge=1)] | None = None
    """An argument of the start call, not of the definition."""

    def __init__(self, **fields: Any) -> None:
        # Not a pydantic validator: those wrap what they raise, and an author should read the one message alone.
        _check_kinds(fields.get("steps", ()))
        super().__init__(**fields)
        from drivetrain.rules.rules import check

        check(self)


def _check_kinds(steps: Any) -> None:
    """What is easily written in place of a list of steps."""
    if isinstance(steps, BaseStep):
        raise SpecError(f"Pipeline(steps=...) is the step {steps.name!r}. Give a list: steps=[...].")
    for one in cast("tuple[Any, ...]", steps) if isinstance(steps, list | tuple) else ():
        if callable(one):
            name = getattr(one, "__name__", None) or getattr(one, "name", None) or type(one).__name__
            raise SpecError(f"Pipeline(steps=...) holds {name}, which is no step yet. Write step({name}).")
