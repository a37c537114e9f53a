"""The needs of the steps that ask a model follow the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivetrain import Cluster, Parameter, Pipeline, UserError, step
from drivetrain.components import Input, component
from drivetrain.components.batch_predict import batch_predict
from drivetrain.components.calibrate import calibrate
from drivetrain.components.compare import compare
from drivetrain.components.describe_model import describe_model
from drivetrain.components.evaluate import evaluate
from drivetrain.components.train import train
from drivetrain.components.train_script import train_script
from drivetrain.components.train_table import train_table
from drivetrain.operations.needs import refuse_lacking
from drivetrain.resolving.frameworks import framework_of_step, needs_of
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import JobStep
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline

PLAIN = ("pyarrow", "numpy")
XGBOOST, LIGHTGBM = "xgboost-cpu>=3.2,<3.3", "lightgbm>=4.7,<4.8"


@component(needs=("torch",))
def look(model: Input) -> int:
    """Take any model."""
    return 0


def described(model: Any, **more: Any) -> JobStep:
    return step(describe_model, trained=model, data="s3://b/d/", task="binary", **more)


def script(**declared: Any) -> JobStep:
    return step(train_script._replace(**declared), train="s3://b/t/", script="fit.py", launcher="python")


def found(asking: JobStep, *before: JobStep) -> tuple[str, tuple[str, ...]]:
    """The framework of a step, and its needs."""
    graph = Graph(Pipeline(name="p", steps=[*before, asking]))
    framework = framework_of_step(asking, graph)
    return framework, needs_of(asking, graph, framework)


@pytest.mark.parametrize(
    ("needs", "framework", "more"),
    [
        (("scikit-learn>=1.4",), "torch", ("scikit-learn>=1.4",)),
        ((), "torch", ()),
        (("torch",), "torch", ("torch",)),
        (("tensorflow", "pandas"), "tensorflow", ("tensorflow", "pandas")),
    ],
)
def test_steps_that_ask_a_scripts_model_need_what_the_script_needs(
    needs: tuple[str, ...], framework: str, more: tuple[str, ...]
) -> None:
    fitted = script(needs=needs)
    model = described(fitted["model"])
    scores = step(evaluate, model=model["model"], data="s3://b/d/")
    assert found(model, fitted) == (framework, (*PLAIN, *more))
    assert found(scores, fitted, model) == (framework, (*PLAIN, *more))
    predicted = step(batch_predict, model=model["model"], data="s3://b/d/")
    assert found(predicted, fitted, model) == (framework, (*PLAIN, *more))
    judged = step(compare, evaluation=scores["report"], model=model["model"], data="s3://b/d/", group="g")
    assert found(judged, fitted, model, scores) == (framework, (*PLAIN, "boto3", *more))


def test_a_script_that_the_launcher_of_tensorflow_starts_is_asked_with_tensorflow() -> None:
    fitted = step(train_script, train="s3://b/t/", script="fit.py", launcher="tf_config")
    model = described(fitted["model"])
    assert found(model, fitted) == ("tensorflow", PLAIN)
    assert found(step(evaluate, model=model["model"], data="s3://b/d/"), fitted, model) == ("tensorflow", PLAIN)


@pytest.mark.parametrize(
    ("estimator", "needs"),
    [
        ("xgboost", (XGBOOST,)),
        ("lightgbm", (LIGHTGBM,)),
        ("sklearn", ("scikit-learn>=1.9,<1.10", "skops>=0.16")),
        ("tests.fixtures.dry_estimator", ()),
        (Parameter.string("e", "xgboost"), (XGBOOST,)),
        (Parameter.string("e", "xgboost", ("xgboost", "lightgbm")), (XGBOOST, LIGHTGBM)),
    ],
    ids=["xgboost", "lightgbm", "sklearn", "own", "parameter", "choices"],
)
def test_the_model_of_a_table_needs_the_library_of_its_estimator(estimator: Any, needs: tuple[str, ...]) -> None:
    """Those of a pipeline parameter's choices, or else of its default."""
    parameters = [estimator] if isinstance(estimator, Parameter) else []
    fitted = step(train_table, train="s3://b/t/", estimator=estimator)
    scores = step(evaluate, model=fitted["model"], data="s3://b/d/")
    graph = Graph(Pipeline(name="p", steps=[fitted, scores], parameters=parameters))
    assert needs_of(fitted, graph, "torch") == needs_of(scores, graph, "torch") == (*PLAIN, *needs)


def test_a_calibrated_model_needs_what_it_needed_before() -> None:
    fitted = step(train_table, train="s3://b/t/", estimator="xgboost")
    model = step(calibrate, trained=fitted["model"], data="s3://b/c/")
    again = step(calibrate, name="again", trained=model["model"], data="s3://b/c/")
    scores = step(evaluate, model=again["model"], data="s3://b/d/")
    for asking, before in ((model, ()), (again, (model,)), (scores, (model, again))):
        assert found(asking, fitted, *before) == ("torch", (*PLAIN, XGBOOST))
    graph = Graph(Pipeline(name="p", steps=[fitted, model, again]))
    assert graph.maker(again["model"]) is fitted and graph.producer(again["model"]) is again
    of_keras = step(train, train="s3://b/t/", strategy="tf_single", recipe="digits_keras")
    model = step(calibrate, trained=of_keras["model"], data="s3://b/c/")
    assert found(step(evaluate, model=model["model"], data="s3://b/d/"), of_keras, model)[0] == "tensorflow"


def test_several_processes_need_no_torch_either() -> None:
    """They join over TCP."""
    fitted = step(train_table, train="s3://b/t/", estimator="xgboost")
    two = step(evaluate, model=fitted["model"], data="s3://b/d/", processes=2, cluster=Cluster(count=2))
    assert found(two, fitted) == ("torch", (*PLAIN, XGBOOST))


def test_answers_need_no_framework() -> None:
    fitted = script(needs=("scikit-learn",))
    scores = step(evaluate, model=fitted["model"], answers=fitted["output"], data="s3://b/d/", task="binary")
    assert found(scores, fitted) == ("torch", PLAIN)
    judged = step(compare, evaluation=scores["report"], model=fitted["model"], data="s3://b/d/", group="g")
    assert found(judged, fitted, scores) == ("torch", (*PLAIN, "boto3"))


def test_models_of_train_need_torch_as_before() -> None:
    fitted = step(train, train="s3://b/t/")
    scores = step(evaluate, model=fitted["model"], data="s3://b/d/")
    assert found(scores, fitted) == ("torch", ("torch", *PLAIN, "safetensors"))
    assert found(step(evaluate, model="s3://b/m/", data="s3://b/d/")) == ("torch", ("torch", *PLAIN, "safetensors"))


def test_a_component_of_the_users_needs_what_it_declares() -> None:
    fitted = step(train_table, train="s3://b/t/", estimator="xgboost")
    assert found(step(look, model=fitted["model"]), fitted) == ("torch", ("torch",))


def test_what_the_stock_image_lacks_travels_as_wheels(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text("import joblib, os\njoblib.dump(1, os.environ['SM_MODEL_DIR'])\n")
    fitted = script(needs=("scikit-learn", "no-such-package"))
    model = described(fitted["model"])
    scores = step(evaluate, model=model["model"], data="s3://b/d/")
    pipeline = Pipeline(name="p", steps=[fitted, model, scores])
    notes = compile_pipeline(pipeline, source=tmp_path, base=tmp_path, here=True).notes
    assert len(notes) == 1 and "no-such-package" in notes[0] and "safetensors" not in notes[0]


def test_a_package_that_a_model_needs_is_looked_for_before_anything_starts(tmp_path: Path) -> None:
    model = described("s3://b/m/")
    needed = model.model_copy(update={"program": model.program.model_copy(update={"needs": ("no-such-package",)})})
    scores = step(evaluate, model=needed["model"], data="s3://b/d/")
    with pytest.raises(UserError, match=r"steps 'describe-model', 'evaluate' need .*\n.*no-such-package$"):
        refuse_lacking(Pipeline(name="p", steps=[needed, scores]), tmp_path)
    fitted = script(needs=("no-such-package",))
    model = described(fitted["model"])
    with pytest.raises(UserError, match=r"steps 'describe-model', 'train-script' need .*\n.*no-such-package$"):
        refuse_lacking(Pipeline(name="p", steps=[fitted, model]), tmp_path)


def test_a_library_of_an_estimator_is_looked_for_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boosted.py").write_text('NEEDS = ("no-such-boost",)\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    fitted = step(train_table, train="s3://b/t/", estimator="boosted")
    with pytest.raises(UserError, match=r"step 'train-table' needs .*\n.*no-such-boost$"):
        refuse_lacking(Pipeline(name="p", steps=[fitted]), tmp_path)
