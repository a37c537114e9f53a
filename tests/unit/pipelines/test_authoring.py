"""The author's words: what they build, and what they refuse where it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from drivetrain.components import Checkpoints, Input, Output, component
from drivetrain.pipelines import (
    CachePolicy,
    Cluster,
    Dependency,
    Parameter,
    Pipeline,
    SpecError,
    call_lambda,
    execution,
    fail,
    folder_in,
    folder_out,
    join,
    register,
    script,
    step,
    when,
)
from drivetrain.pipelines.spec.steps import ProcessingStep, TrainingStep
from drivetrain.pipelines.spec.values import LambdaOutputRef, PropertyRef


@component
def load(raw: Input, data: Output, note: Input | None = None, limit: int | None = None) -> None:
    """Load the data."""


@component(job="training")
def fit_at_once(data: Input, model: Output) -> None:
    """Fit without checkpoints."""


@component(job="training", logs={"loss": r"loss=([0-9.]+)"}, resumable=["epochs"])
def fit(
    data: Input,
    model: Output,
    checkpoints: Checkpoints,
    rate: float = 0.1,
    epochs: int = 1,
    kind: Literal["a", "b"] = "a",
) -> None:
    """Fit a model."""


@component
def measure(model: Input) -> dict[str, float]:
    return {"accuracy": 1.0}


def test_a_step_takes_its_declaration() -> None:
    loaded = step(load, raw="s3://bucket/raw/", limit=3)
    assert isinstance(loaded, ProcessingStep)
    assert loaded.name == "load"
    assert loaded.description == "Load the data."
    assert loaded.outputs == ("data",)
    assert loaded.inputs == {"raw": "s3://bucket/raw/"}
    assert loaded.parameters == {"limit": 3}
    assert loaded.program.target.endswith(":load")


def test_a_training_step_keeps_checkpoints_logs_and_what_may_grow() -> None:
    fitted = step(fit, data="s3://b/k", rate=1)
    assert isinstance(fitted, TrainingStep)
    assert fitted.checkpoint is not None
    assert fitted.resumable_parameters == ("epochs",)
    assert fitted.parameters == {"rate": 1.0, "epochs": 1, "kind": "a"}
    assert isinstance(fitted.parameters["rate"], float)
    assert fitted.logged("loss") == PropertyRef(step="fit", path="FinalMetricDataList['loss'].Value", type="Float")
    with pytest.raises(SpecError, match="Did you mean 'loss'"):
        fitted.logged("los")


def test_a_path_is_an_input() -> None:
    assert step(load, raw=Path("data") / "x.csv").inputs == {"raw": "data/x.csv"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rwa": "s3://b/k"}, "Did you mean 'raw'"),
        ({}, "needs the input folder 'raw'"),
        ({"raw": "s3://b/k", "limit": "three"}, "limit is Integer, but 'three' is String"),
        ({"raw": "s3://b/k", "limit": True}, "limit is Integer, but True is Boolean"),
        ({"raw": "s3://b/k", "limit": [1]}, "is a list"),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        step(load, **given)
    assert len(str(caught.value).splitlines()) <= 3


def test_a_whole_step_is_no_input() -> None:
    with pytest.raises(SpecError, match=r"Name one of its outputs: data=load\['...'\]"):
        step(fit, data=step(load, raw="s3://b/k"))


def test_choices_are_checked() -> None:
    with pytest.raises(SpecError, match=r"kind is 'c'"):
        step(fit, data="s3://b/k", kind="c")


def test_a_parameter_of_another_type_is_refused() -> None:
    assert step(fit, data="s3://b/k", rate=Parameter.integer("Rate")).parameters["rate"].name == "Rate"
    with pytest.raises(SpecError, match="epochs is Integer, but Parameter 'Epochs' is Float"):
        step(fit, data="s3://b/k", epochs=Parameter.number("Epochs"))


def test_outputs_and_metrics_are_taken_by_name() -> None:
    loaded, measured = step(load, raw="s3://b/k"), step(measure, model="s3://b/k")
    with pytest.raises(SpecError, match="Did you mean 'data'"):
        loaded["dta"]
    with pytest.raises(SpecError, match="has no output"):
        loaded["metrics"]
    assert measured["metrics"].output == "metrics"
    assert measured.metric("anything").name == "anything"  # a dict's names are known when it runs
    with pytest.raises(SpecError, match="take its outputs by name"):
        list(loaded)


def test_only_components_are_steps() -> None:
    with pytest.raises(SpecError, match="@component"):
        step(len)  # type: ignore[arg-type]


def test_a_script_is_a_step() -> None:
    cleaned = script(
        "jobs/clean_up.py",
        inputs={"raw": "s3://b/k"},
        outputs=["clean"],
        arguments=["--from", folder_in("raw"), "--to", folder_out("clean"), "--rows", 3],
    )
    assert cleaned.name == "clean-up"
    assert cleaned["clean"].output == "clean"
    for path in ("/abs.py", "../up.py"):
        with pytest.raises(SpecError, match="below the folder"):
            script(path)


def test_edges_conditions_and_the_rest() -> None:
    loaded, measured = step(load, raw="s3://b/k"), step(measure, model="s3://b/k")
    asked = call_lambda("arn:aws:lambda:us-east-1:1:function:f", name="ask", outputs={"go": "Boolean"}, who="x")
    assert asked.value("go") == LambdaOutputRef(step="ask", name="go", type="Boolean")
    with pytest.raises(SpecError, match="returns no 'gone'"):
        asked.value("gone")
    late = step(measure, name="late", model="s3://b/k", after=[loaded, Dependency(step="load", trigger="Failed")])
    assert [item.trigger for item in late.depends_on] == [None, "Failed"]
    version = register(model="s3://b/m.tar.gz", group=join("g-", execution("PipelineExecutionId")), metrics=measured)
    gate = when(measured.metric("a") > 1, measured.metric("b") > 2, then=[version], otherwise=[fail("x")])
    built = Pipeline(name="p", steps=[loaded, measured, asked, late, gate], cache=CachePolicy(enabled=False))
    assert [one.name for one in built.steps] == ["load", "measure", "ask", "late", "decide"]
    with pytest.raises(SpecError, match="no condition"):
        when(then=[fail("x")])


@pytest.mark.parametrize("after", ["load", ["load"], [load]])
def test_what_comes_before_is_a_step(after: object) -> None:
    with pytest.raises(SpecError, match=r"no step\. Give the steps themselves: after=\[cleaned\]"):
        step(load, raw="s3://b/k", after=after)  # type: ignore[arg-type]


def test_a_single_step_before_needs_no_list() -> None:
    loaded = step(load, raw="s3://b/k")
    assert step(load, name="again", raw="s3://b/k", after=loaded).depends_on == (Dependency(step="load"),)  # type: ignore[arg-type]


def test_checkpoints_are_for_training() -> None:
    from drivetrain.pipelines import Checkpoint

    with pytest.raises(SpecError, match="no checkpoints"):
        step(load, raw="s3://b/k", checkpoint=Checkpoint())


def test_checkpoints_are_for_programs_that_keep_some() -> None:
    from drivetrain.pipelines import Checkpoint

    with pytest.raises(SpecError, match="its component keeps none"):
        step(fit_at_once, data="s3://b/k", checkpoint=Checkpoint())


def test_a_training_step_has_the_outputs_that_its_program_writes() -> None:
    fitted = step(fit_at_once, data="s3://b/k")
    assert fitted["model"].output == "model"
    with pytest.raises(SpecError, match="has no output 'output'"):
        fitted["output"]


def test_a_spec_does_not_change() -> None:
    loaded = step(load, raw="s3://b/k", cluster=Cluster(count=2))
    with pytest.raises(Exception, match="frozen"):
        loaded.name = "other"
    with pytest.raises(TypeError, match="immutable"):
        loaded.inputs["raw"] = "s3://b/other"
