"""A component of Drivetrain that is given what it cannot read is told before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivetrain import Pipeline, SpecError, register, step, when
from drivetrain.components import Input, Output, component
from drivetrain.components.batch_predict import batch_predict
from drivetrain.components.calibrate import calibrate
from drivetrain.components.compare import compare
from drivetrain.components.describe_model import describe_model
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.register_model import register_model
from drivetrain.components.train import train
from drivetrain.components.train_script import train_script
from drivetrain.components.train_table import train_table


@component
def measure(model: Input) -> dict[str, float]:
    """Numbers, and no folder."""
    return {"accuracy": float((model / "right.txt").read_text())}


@component
def measure_whole(model: Input, report: Output) -> dict[str, float]:
    """Perhaps a report as evaluate writes it."""
    return {"accuracy": float((report / Path("evaluation.json")).write_bytes((model / "evaluation.json").read_bytes()))}


@component
def change(model: Input, smaller: Output) -> None:
    """Perhaps a model as train writes it."""
    (smaller / "model.json").write_bytes((model / "model.json").read_bytes())


def steps() -> dict[str, Any]:
    data = step(prepare_data, raw="s3://b/rows", key="id", label="y")
    model = step(train, train=data["train"], validation=data["validation"])
    scores = step(evaluate, model=model["model"], data=data["test"])
    own = step(measure, model=model["model"])
    return {"data": data, "model": model, "scores": scores, "own": own}


def pipeline(*made: Any) -> Pipeline:
    return Pipeline(name="p", steps=[*made])


def comparing(of: dict[str, Any], evaluation: Any) -> Any:
    return step(compare, evaluation=evaluation, model=of["model"]["model"], data=of["data"]["test"], group="g")


@pytest.mark.parametrize("whole", [True, False])
def test_compare_refuses_a_metrics_file_that_is_no_report(whole: bool) -> None:
    of = steps()
    with pytest.raises(SpecError) as caught:
        pipeline(*of.values(), comparing(of, of["own"] if whole else of["own"]["metrics"]))
    assert str(caught.value).partition(": ")[0].startswith("test_wiring.py, line ")
    assert str(caught.value).partition(": ")[2] == (
        "Step 'compare': evaluation is the output 'metrics' of step 'measure', which holds numbers. compare takes the "
        "output `report` of drivetrain.components.evaluate. Your own measure() writes none. Decide by its numbers: "
        "scores = step(measure, ...), and then when(scores.metric('NAME') >= FLOOR, then=[...])."
    )


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda of: comparing(of, of["scores"]["metrics"]), "takes the output `report` of drivetrain.components.evalu"),
        (
            lambda of: comparing(of, of["model"]["model"]),
            "output 'model' of step 'train', which holds a model. compare",
        ),
        (lambda of: step(evaluate, name="e", model=of["own"], data=of["data"]["test"]), "evaluate takes the output `m"),
        (lambda of: step(evaluate, name="e", model=of["data"]["train"], data=of["data"]["test"]), "which holds data"),
        (
            lambda of: step(describe_model, trained=of["model"]["model"], data=of["model"]["model"], task="binary"),
            "which holds a model. describe_model takes prepared data",
        ),
        (lambda of: step(batch_predict, model=of["scores"]["report"], data="s3://b/r"), "batch_predict takes the outp"),
        (
            lambda of: step(register_model, model="s3://b/m", artifact="s3://b/m", group="g", report=of["own"]),
            "register(..., metrics=scores) keeps them.",
        ),
        (
            lambda of: step(
                register_model, model="s3://b/m", artifact="s3://b/m", group="g", decision=of["scores"]["report"]
            ),
            "register_model takes the output `decision` of drivetrain.components.compare.",
        ),
        (
            lambda of: step(calibrate, trained=of["scores"]["report"], data="s3://b/r"),
            "trained is the output 'report' of step 'evaluate', which holds an evaluation's report. calibrate take",
        ),
        (lambda of: step(train, name="t", train=of["own"]["metrics"]), "train takes prepared data."),
        (lambda of: step(train_table, name="t", train=of["own"]["metrics"]), "train_table takes prepared data."),
        (
            lambda of: step(evaluate, name="e", model=of["model"]["model"], data=of["data"]["calibration"]),
            "data is the calibration set of step 'prepare-data', which makes none. Give 'prepare-data' calibration_per",
        ),
    ],
)
def test_an_output_of_another_kind_is_refused(made: Any, said: str) -> None:
    of = steps()
    with pytest.raises(SpecError) as caught:
        pipeline(*of.values(), made(of))
    assert said in str(caught.value)


def test_possibly_valid_wiring_is_accepted() -> None:
    of = steps()
    whole, smaller = step(measure_whole, model=of["model"]["model"]), step(change, model=of["model"]["model"])
    script = step(train_script, script="fit.py", train=of["own"]["metrics"])  # a script reads what it likes
    compared = comparing(of, of["scores"])
    pipeline(
        *of.values(),
        whole,
        smaller,
        script,
        compared,
        step(compare, name="c2", evaluation=whole, model=smaller["smaller"], data="s3://b/test", group="g"),
        step(compare, name="c3", evaluation="s3://b/report", model=smaller["smaller"], data="s3://b/test", group="g"),
        step(evaluate, name="e2", model=smaller, data=of["data"]["test"]),
        step(evaluate, name="e3", model=of["model"]["output"], data=of["data"]["test"]),
        step(batch_predict, model=script["model"], data=of["data"]["test"]),
        step(register_model, name="r", model=smaller, artifact="s3://b/m", group="g", evaluation=of["own"]),
        when(
            of["own"].metric("accuracy") >= 0.5,
            then=[register(name="r2", model=smaller, metrics=of["own"], group="h", decision=compared)],
        ),
    )
