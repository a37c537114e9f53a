"""A component that is called where a step was meant: the line, and what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drivetrain import Pipeline, SpecError, step
from drivetrain.authoring.import_failures import advice
from drivetrain.authoring.loading import load_function
from drivetrain.components import Value, component


@component
def make(n: int = 3) -> Value:
    """Make numbers."""
    return list(range(n))


@component
def measure(x: Value, scale: float = 1.0) -> dict[str, float]:
    """Measure them."""
    return {"count": len(x) * scale}


def kept_under_a_name(n: int = 5) -> Pipeline:
    a = make(n=n)
    return Pipeline(name="p", steps=[a])


def by_position() -> Pipeline:
    a: Any = make(4)
    b = make(7)
    return Pipeline(name="p", steps=[b, a])


def within_step(n: int = 5) -> Pipeline:
    return Pipeline(name="p", steps=[step(make(n=n))])  # type: ignore[arg-type]


def of_another_kind() -> Pipeline:
    made: Any = [1, 2]
    return Pipeline(name="p", steps=[step(make), made])


def not_a_component() -> Pipeline:
    return Pipeline(name="p", steps=[step(print)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("author", "said"),
    [
        (kept_under_a_name, ": make(n=n) was called now. Write step(make, n=n)."),
        (by_position, ": make(7) was called now. Write step(make, n=7)."),
        (within_step, "step([0, 1, 2, 3, 4]): not a component. In line "),
        (within_step, ": make(n=n) was called now. Write step(make, n=n)."),
        (of_another_kind, "holds [1, 2], which is no step. Give what step(...) returns."),
        (not_a_component, "not a component. Decorate the function with @component."),
    ],
)
def test_a_component_that_is_called_directly_is_named(author: Callable[..., Pipeline], said: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_function(author)
    assert said in str(refused.value)


def test_an_input_by_position_is_named() -> None:
    a: Any = step(make)
    with pytest.raises(TypeError) as refused:
        step(measure, a, scale=2.0)  # type: ignore[call-arg]
    assert advice(refused.value) == ". Name the input: step(measure, x=a, scale=2.0)."
    with pytest.raises(TypeError) as refused:
        make(1, 2)  # type: ignore[call-arg]
    assert advice(refused.value) == ""
