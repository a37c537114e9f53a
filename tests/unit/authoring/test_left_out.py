"""Steps that a pipeline's function writes and leaves out of the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drivetrain import Pipeline, Settings, SpecError, current_item, fail, for_each, register, step, tune, when
from drivetrain import between as within
from drivetrain.authoring.loading import load_function
from drivetrain.components import Input, Output, component


@component
def load(data: Output) -> dict[str, float]:
    """Load the data."""
    return {"rows": 1.0}


@component(job="training", logs={"loss": r"loss=([0-9.]+)"})
def fit(data: Input, model: Output, rate: float = 0.1) -> None:
    """Fit a model."""


def _chain() -> tuple[Any, Any, Any]:
    data = step(load)
    model = step(fit, data=data["data"])
    gate = when(data.metric("rows") >= 1, then=[register(model=model, group="g")], otherwise=[fail("no rows")])
    return data, model, gate


def without_the_gate() -> Pipeline:
    return Pipeline(name="p", steps=[*_chain()[:2]])


def without_the_last() -> Pipeline:
    data = step(load)
    step(fit, data=data["data"])
    step(load, name="again")
    return Pipeline(name="p", steps=[data])


def without_the_guarded() -> Pipeline:
    data = step(load)
    model = step(fit, data=data["data"])
    register(model=model, group="g")
    return Pipeline(name="p", steps=[data, model, when(data.metric("rows") >= 1, then=[fail("no rows")])])


def of_no_step() -> Pipeline:
    return Pipeline(name="p", steps=[])


def without_what_others_need() -> Pipeline:
    return Pipeline(name="p", steps=[*_chain()[1:]])


@pytest.mark.parametrize(
    ("author", "said"),
    [
        (
            without_the_gate,
            "Pipeline 'p': the condition 'decide' (with register-model, stop) is not in Pipeline(steps=...) and would "
            "not run. Add it there",
        ),
        (
            without_the_last,
            "Pipeline 'p': step 'fit'; step 'again' (test_left_out.py, line "
            f"{without_the_last.__code__.co_firstlineno + 3}) are not in Pipeline(",
        ),
        (of_no_step, "Pipeline 'p' has no steps. Give Pipeline(steps=[...])"),
        (without_the_guarded, "is to allow belongs into its then=[...]"),
        (without_what_others_need, "needs step 'load', which is not in Pipeline(steps=...). Add it there."),
    ],
)
def test_steps_left_out_of_the_pipeline_are_refused(author: Callable[[], Pipeline], said: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_function(author)
    assert str(refused.value).startswith("test_left_out.py, line ") and said in str(refused.value)


def in_a_branch() -> Pipeline:
    return Pipeline(name="p", steps=[*_chain()])


def in_a_body() -> Pipeline:
    data = step(load)
    model = step(fit, data=data["data"], rate=current_item("Float"))
    return Pipeline(name="p", steps=[data, for_each([0.1, 0.2], [model], name="each")])


def searched() -> Pipeline:
    data = step(load)
    search = tune(step(fit, data=data["data"]), objective="loss", rate=within(0.1, 0.2), max_trainings=2)
    return Pipeline(name="p", steps=[data, search])


def of_another() -> Pipeline:
    both = in_a_branch()
    return Pipeline(name="q", steps=[one for one in both.steps if one.name != "decide"])


def copied() -> Pipeline:
    pattern = step(load, name="pattern")
    return Pipeline(name="p", steps=[pattern.model_copy(update={"name": f"load-{n}"}) for n in range(2)])


def never_written(settings: Settings) -> Pipeline:
    steps = [step(load)]
    if settings.deployment.target != "local":
        steps.append(step(load, name="more"))
    return Pipeline(name="p", steps=steps)


MADE_BEFORE = step(load, name="before")


def made_elsewhere() -> Pipeline:
    return Pipeline(name="p", steps=[step(load, after=[MADE_BEFORE]), MADE_BEFORE])


def one_of_two() -> Pipeline:
    first, second = (register(model=step(fit, data="s3://b/d")["model"], group=group) for group in "ab")
    return Pipeline(name="p", steps=[step(fit, data="s3://b/d"), first if len("a") else second])


@pytest.mark.parametrize(
    "author", [in_a_branch, in_a_body, searched, of_another, copied, never_written, made_elsewhere, one_of_two]
)
def test_steps_used_by_name_or_in_another_pipeline_are_not_left_out(author: Callable[..., Pipeline]) -> None:
    assert load_function(author).pipeline.steps
