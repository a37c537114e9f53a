"""What an author gives a word of the wrong kind, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drivetrain import (
    Pipeline,
    SpecError,
    call_lambda,
    fail,
    for_each,
    largest,
    one_of,
    register,
    script,
    step,
    tune,
    when,
)
from drivetrain.components import Output, component


@component
def load(data: Output) -> dict[str, float]:
    """Load the data."""
    return {}


@component(job="training", logs={"loss": r"loss=([0-9.]+)"})
def fit(model: Output, rate: float = 0.1) -> None:
    """Fit a model."""


LOADED: Any = step(load)
STOP: Any = fail("no")
ENOUGH = LOADED.metric("rows") >= 1
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: step(load, after=5), "after=5: no step. Give the steps themselves"),  # type: ignore[arg-type]
    (lambda: when(ENOUGH, then=STOP), "when(then=...) is the step 'stop'. Give a list: then=[...]."),
    (lambda: when(ENOUGH, otherwise=[load]), "when(otherwise=...) holds load, which is no step yet."),
    (lambda: for_each([1], 5, name="each"), "for_each(body=...) is 5. Give a list of steps"),  # type: ignore[arg-type]
    (lambda: Pipeline(name="p", steps="load"), "Pipeline(steps=...) is 'load'. Give a list of steps: steps=[...]."),
    (lambda: Pipeline("p"), "Pipeline('p'): its fields are given by name"),  # type: ignore[arg-type]
    (lambda: script(5), "script(5): give the path of a script as a text"),  # type: ignore[arg-type]
    (lambda: call_lambda("arn", name="f", outputs=["score"]), 'outputs={"score": "Float"}'),  # type: ignore[arg-type]
    (lambda: largest(LOADED), "cannot be compared between iterations"),
    (lambda: register(model=LOADED, group="g", metadata="x"), "metadata is 'x'. Write"),  # type: ignore[arg-type]
    (lambda: tune(step(fit), objective=5), "objective=5): give the name of a metric"),  # type: ignore[arg-type]
    (lambda: one_of(None), "is None: give True or False or a whole number"),
    (lambda: LOADED[5], "Step 'load' has no output 5. Allowed: data, metrics."),
    (lambda: step(fit).logged(["loss"]), "Step 'fit' logs no ['loss']."),
]


@pytest.mark.parametrize(("write", "said"), WRONG)
def test_values_of_a_wrong_kind_are_refused_where_written(write: Callable[[], Any], said: str) -> None:
    with pytest.raises(SpecError) as refused:
        write()
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_steps_may_come_from_any_ordered_iterable() -> None:
    assert Pipeline(name="p", steps=(each for each in [LOADED])).steps == (LOADED,)
    assert when(ENOUGH, then={"only": STOP}.values()).then == (STOP,)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("throttling", "retry holds 'throttling', which is no RetryPolicy"),
        (["throttling", "quota"], "retry holds 'throttling', which is no RetryPolicy"),
        (3, "retry holds 3, which is no RetryPolicy"),
        (None, "retry holds None, which is no RetryPolicy"),
    ],
)
def test_invalid_retry_policies_are_refused(given: Any, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        step(load, retry=given)
    assert str(refused.value).startswith(f"Step 'load': {said}. Give a list, such as retry=[RetryPolicy(causes=['")
    assert "causes are service_error, throttling, job_error, no_capacity, quota." in str(refused.value)
