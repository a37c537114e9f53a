"""The pipeline as an author builds it: the spec, checked."""

from __future__ import annotations

from typing import Any, cast

from drivetrain.base.errors import SpecError, shown
from drivetrain.rules.rules import check
from drivetrain.spec import pipeline as spec
from drivetrain.spec.steps import BaseStep
from drivetrain.spec.values import Pending


class Pipeline(spec.Pipeline, defer_build=False):
    """Steps that compose into a DAG; references between them are its edges.

    Built means checked: names, references, cycles, types and limits (drivetrain.rules).

    Raises:
        SpecError: naming the first broken rule and what to do.
    """

    def __init__(self, **fields: Any) -> None:
        # Not a pydantic validator: those wrap what they raise, and an author should read the one message alone.
        _check_kinds(fields.get("steps", ()))
        super().__init__(**fields)
        check(self)

    def _repr_html_(self) -> str:
        """Its DAG, for notebooks. What draws it stands above this room, and is found by its name."""
        import importlib

        return str(importlib.import_module("drivetrain.client.pictures").of_pipeline(self))


def _check_kinds(steps: Any) -> None:
    """What is easily written in place of a list of steps."""
    if isinstance(steps, BaseStep):
        raise SpecError(f"Pipeline(steps=...) is the step {steps.name!r}. Give a list: steps=[...].")
    if not isinstance(steps, list | tuple):
        raise SpecError(f"Pipeline(steps=...) is {shown(steps)}. Give a list of steps: steps=[...].")
    for one in cast("tuple[Any, ...]", steps):
        if callable(one):
            name = getattr(one, "__name__", None) or getattr(one, "name", None) or type(one).__name__
            raise SpecError(f"Pipeline(steps=...) holds {name}, which is no step yet. Write step({name}).")
        if isinstance(one, Pending):
            raise SpecError(
                f"Pipeline(steps=...) holds {one.described()}, which is a value of a step. Give the step itself: "
                "made = step(...), then steps=[made], and made['output'] where another step reads it."
            )
        if not isinstance(one, BaseStep | dict):
            raise SpecError(f"Pipeline(steps=...) holds {shown(one)}, which is no step. Give what step(...) returns.")
