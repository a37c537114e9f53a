"""What RegisterModel is told of a version, and what a step that asks a registry is told of the platform."""

from __future__ import annotations

import json
from typing import Any, TypedDict

import pytest
from sklearn.linear_model import LinearRegression

from drivetrain import Deployment, Pipeline, register, step
from drivetrain.base.errors import SpecError
from drivetrain.components import Input, Output, Value, component
from drivetrain.components.check_data import check_data
from drivetrain.components.describe_model import describe_model
from drivetrain.components.train import train
from drivetrain.components.train_script import train_script
from drivetrain.components.train_table import train_table
from drivetrain.targets.sagemaker.compile.compile import Compiled, compile_pipeline
from drivetrain.targets.sagemaker.images import stock_image


class Told(TypedDict):
    good: int
    content_hash: str


@component(cached=False)
def judge(model: Input, decision: Output, registry: str = "auto") -> Told:
    return {"good": 1, "content_hash": "x"}


@component
def measure(model: Input, report: Output) -> dict[str, float]:
    return {}


@component(job="training")
def fit(data: Input, model: Output, rate: float = 0.1) -> None:
    """Fit without us."""


def steps(*built: Any, **fields: Any) -> dict[str, dict[str, Any]]:
    definition = compile_pipeline(Pipeline(name="p", steps=list(built), **fields)).definition
    return {each["Name"]: each for each in definition["Steps"]}


def property_of(step: str, name: str) -> dict[str, Any]:
    file = {"Get": f"Steps.{step}.PropertyFiles.metrics"}
    return {"Std:JsonGet": {"PropertyFile": file, "Path": name}}


def output_file(step: str, output: str, *names: str) -> dict[str, Any]:
    uri = {"Get": f"Steps.{step}.ProcessingOutputConfig.Outputs['{output}'].S3Output.S3Uri"}
    return {"Std:Join": {"On": "/", "Values": [uri, *names]}}


def flagship(**given: Any) -> dict[str, dict[str, Any]]:
    fitted = step(train, train="s3://b/train/", epochs=3)
    scores = step(measure, model=fitted["model"])
    judged = step(judge, model=fitted["model"])
    made = register(model=fitted["model"], evaluation=scores, decision=judged, group="g", **given)
    return steps(fitted, scores, judged, made)


def test_a_version_of_our_training() -> None:
    built = flagship(intended_use="Reads digits.")
    found = built["register-model"]["Arguments"]
    assert found["MetadataProperties"] == {"GeneratedBy": {"Get": "Execution.PipelineExecutionArn"}}
    assert found["ModelMetrics"]["ModelQuality"]["Statistics"] == {
        "ContentType": "application/json",
        "S3Uri": output_file("measure", "report", "model_quality.json"),
    }
    metadata = found["CustomerMetadataProperties"]
    assert metadata["drivetrain-content-hash"] == property_of("judge", "content_hash")
    assert metadata["drivetrain-decision-uri"] == output_file("judge", "decision", "decision.json")
    assert metadata["drivetrain-lineage-code"] in json.dumps(built["train"]), "the code that trained it"
    assert len(metadata["drivetrain-lineage-config"]) == 64
    assert "drivetrain-lineage-data" not in metadata, "this step does not know it"
    card = json.loads(found["ModelCard"]["ModelCardContent"])
    assert card["intended_uses"] == {"intended_uses": "Reads digits."}
    told = {each["name"]: each["value"] for each in _parameters(card)}
    assert told["epochs"] == "3" and told["recipe"] == "digits_cnn" and "weights" not in told
    (container,) = found["InferenceSpecification"]["Containers"]
    assert "/pytorch-inference:2.6.0-cpu-" in container["Image"]
    assert container["Environment"]["SAGEMAKER_PROGRAM"] == "inference.py"
    assert container["Environment"]["SAGEMAKER_SUBMIT_DIRECTORY"] == "/opt/ml/model/code"
    assert "text/csv" in found["InferenceSpecification"]["SupportedContentTypes"]


def test_the_baselines_of_checked_data() -> None:
    checked = step(check_data, train="s3://b/train/", group="g")
    for given in (checked, checked["report"]):
        made = register(model="s3://b/model.tar.gz", group="g", data_check=given)
        found = steps(checked, made)["register-model"]["Arguments"]
        expected = {
            name: {
                "ContentType": "application/json",
                "S3Uri": output_file("check-data", "report", "model_monitor", f"{name.lower()}.json"),
            }
            for name in ("Statistics", "Constraints")
        }
        assert found["DriftCheckBaselines"] == found["ModelMetrics"] == {"ModelDataQuality": expected}


def test_additions_to_a_card_section_keep_its_other_fields() -> None:
    """And what both say is said in the author's words."""
    own = {"objective_function": {"notes": "cross entropy"}, "training_job_details": {"training_arn": "arn"}}
    built = flagship(card={"training_details": own, "model_overview": {"model_creator": "ada"}})
    card = json.loads(built["register-model"]["Arguments"]["ModelCard"]["ModelCardContent"])
    assert card["training_details"]["objective_function"] == {"notes": "cross entropy"}
    assert card["training_details"]["training_job_details"]["training_arn"] == "arn"
    assert {"name": "epochs", "value": "3"} in _parameters(card)
    assert card["model_overview"] == {"model_creator": "ada"}


def _parameters(card: dict[str, Any]) -> list[dict[str, str]]:
    return card["training_details"]["training_job_details"]["user_provided_hyper_parameters"]


def test_the_configuration_hash_covers_the_given_values() -> None:
    one, same, other = (
        steps(fitted := step(train, train="s3://b/train/", epochs=epochs), register(model=fitted["model"], group="g"))
        for epochs in (3, 3, 4)
    )
    hashes = [
        built["register-model"]["Arguments"]["CustomerMetadataProperties"]["drivetrain-lineage-config"]
        for built in (one, same, other)
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_version_of_another_training_and_one_from_elsewhere() -> None:
    fitted = step(fit, data="s3://b/train/")
    found = steps(fitted, register(model=fitted["model"], group="g"))["register-model"]["Arguments"]
    (container,) = found["InferenceSpecification"]["Containers"]
    assert "Environment" not in container, "what serves it is not ours to say"
    assert found["InferenceSpecification"]["SupportedContentTypes"] == ["application/json"]
    assert [each["name"] for each in _parameters(json.loads(found["ModelCard"]["ModelCardContent"]))] == ["rate"]
    brought = steps(register(model="s3://b/model.tar.gz", group="g"))["register-model"]["Arguments"]
    assert "CustomerMetadataProperties" not in brought and "ModelCard" not in brought


@component(needs=["scikit-learn>=1.4"])
def fit_declared(data: Input, model: Output) -> None:
    """Fit by what it declares."""


@component
def fit_forest(data: Input) -> Value:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier()


@component
def fit_line(data: Input) -> Value:
    return LinearRegression()


@component
def fit_both(data: Input) -> Value:
    import torch
    from sklearn.model_selection import train_test_split

    return torch, train_test_split


@pytest.mark.parametrize("of", [fit_declared, fit_forest, fit_line])
def test_a_model_of_scikit_learn_is_served_by_its_image(of: Any) -> None:
    fitted = step(of, data="s3://b/train/")
    found = steps(fitted, register(model=fitted, group="g"))["register-model"]["Arguments"]
    (container,) = found["InferenceSpecification"]["Containers"]
    assert container["Image"] == "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-scikit-learn:1.9-0-cpu-py3"
    assert container["Environment"]["SAGEMAKER_PROGRAM"] == "inference.py"


def test_a_model_of_torch_that_also_uses_scikit_learn_is_not() -> None:
    fitted = step(fit_both, data="s3://b/train/")
    found = steps(fitted, register(model=fitted, group="g"))["register-model"]["Arguments"]
    assert "/pytorch-inference:" in found["InferenceSpecification"]["Containers"][0]["Image"]


@component
def fit_trees(data: Input) -> Value:
    import xgboost
    from sklearn.model_selection import train_test_split

    return xgboost, train_test_split


def test_a_model_of_xgboost_is_served_by_its_image() -> None:
    """As the image reads it without code; whether there is code, is not ours to say."""
    fitted = step(fit_trees, data="s3://b/train/")
    found = steps(fitted, register(model=fitted, group="g"))["register-model"]["Arguments"]
    (container,) = found["InferenceSpecification"]["Containers"]
    assert container["Image"] == "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:3.2-0"
    assert "Environment" not in container


@pytest.fixture(autouse=True)
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs need no packages that are not here."""
    monkeypatch.setattr("drivetrain.targets.sagemaker.compile.compile.missing", lambda needs, image: ())


def of_functions(*needs: str, image: str | None = None) -> Compiled:
    """A script's model, described and registered."""
    fitted = step(
        train_script._replace(needs=needs), train="s3://b/t/", source="s3://b/s/", script="f.py", launcher="python"
    )
    made = step(describe_model, trained=fitted["model"], data="s3://b/d/", task="binary")
    return compile_pipeline(
        Pipeline(name="p", steps=[fitted, made, register(model=made["model"], group="g", image=image)])
    )


def registered(compiled: Compiled) -> dict[str, Any]:
    return compiled.definition["Steps"][-1]["Arguments"]["InferenceSpecification"]


@pytest.mark.parametrize(
    ("needs", "image"),
    [
        (("scikit-learn==1.9.*",), "sagemaker-scikit-learn:1.9-0-cpu-py3"),
        (("xgboost>=3.2,<3.3",), "sagemaker-xgboost:3.2-0"),
        (("torch",), "pytorch-inference:2.6.0-cpu-py312-ubuntu22.04-sagemaker"),
        (("tensorflow",), "pytorch-inference:2.6.0-cpu-py312-ubuntu22.04-sagemaker"),
    ],
)
def test_a_model_of_functions_is_served_by_our_code_in_the_image_of_its_library(
    needs: tuple[str, ...], image: str
) -> None:
    found = registered(of_functions(*needs))
    (container,) = found["Containers"]
    assert container["Image"].rpartition("/")[2] == image
    assert container["Environment"]["SAGEMAKER_PROGRAM"] == "inference.py"
    assert "application/x-npy" in found["SupportedContentTypes"] == found["SupportedResponseMIMETypes"]


def test_the_card_of_a_described_model_says_that_it_runs_code() -> None:
    made = of_functions("torch").definition["Steps"][-1]["Arguments"]["ModelCard"]["ModelCardContent"]
    assert json.loads(made)["training_details"] == {
        "training_observations": "Trained by a script of its own. Loading this model runs code, its module 'answer'."
    }


@pytest.mark.parametrize(
    ("estimator", "image", "lacking"),
    [
        ("xgboost", "sagemaker-xgboost", "hold Python 3.11 or newer"),
        ("sklearn", "sagemaker-scikit-learn", "hold skops>=0.16; Python 3.11 or newer"),
        ("lightgbm", "pytorch-inference", "hold lightgbm>=4.7,<4.8. "),
    ],
)
def test_the_model_of_a_table_is_served_like_a_described_one(estimator: str, image: str, lacking: str) -> None:
    fitted = step(train_table, train="s3://b/t/", estimator=estimator)
    made = register(model=fitted["model"], group="g")
    compiled = compile_pipeline(Pipeline(name="p", steps=[fitted, made]))
    (container,) = registered(compiled)["Containers"]
    assert f"/{image}:" in container["Image"] and "SAGEMAKER_PROGRAM" in container["Environment"]
    assert any(lacking in note for note in compiled.notes)


NOT_SURE = "Step 'register-model': the image that serves the model, {}, is not documented to hold {}."


@pytest.mark.parametrize(
    ("needs", "image", "lacking"),
    [
        (("scikit-learn==1.9.2",), "sagemaker-scikit-learn 1.9", "Python 3.11 or newer, which the model's code/ needs"),
        (
            ("scikit-learn>=1.4",),
            "sagemaker-scikit-learn 1.9",
            "the version of scikit-learn that the model is of (it holds 1.9: "
            'needs=("scikit-learn==1.9.*",) in its training); Python 3.11 or newer, which the model\'s code/ needs',
        ),
        (("torch==2.6.0", "tabulate"), "pytorch-inference 2.6", "tabulate"),
        (("lightgbm>=4",), "pytorch-inference 2.6", "lightgbm>=4"),
    ],
)
def test_what_the_serving_image_may_lack_is_noted(needs: tuple[str, ...], image: str, lacking: str) -> None:
    runs_code, note = of_functions(*needs).notes[::-1]
    assert runs_code.startswith("Step 'describe-model': loading this model runs code")
    assert note.startswith(NOT_SURE.format(image, lacking)) and note.endswith("sagemaker.serving_image.")


def test_nothing_is_noted_where_the_image_is_known_or_ones_own() -> None:
    for compiled in (of_functions("torch==2.6.*"), of_functions("lightgbm", image="mine:1")):
        assert not any(note.startswith("Step 'register-model'") for note in compiled.notes)


def test_an_image_of_ones_own() -> None:
    for made, fields in (
        (register(model="s3://b/m.tar.gz", group="g", image="mine:1"), {}),
        (
            register(model="s3://b/m.tar.gz", group="g"),
            {"deployment": Deployment(targets={"sagemaker": {"serving_image": "mine:1"}})},
        ),
    ):
        specification = steps(made, **fields)["register-model"]["Arguments"]["InferenceSpecification"]
        assert specification["Containers"][0]["Image"] == "mine:1"


def test_the_image_of_jobs_does_not_serve() -> None:
    """It holds what trains; an endpoint in it would not start, and that after the version was approved."""
    jobs = Deployment(targets={"sagemaker": {"image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1"}})
    made = steps(register(model="s3://b/m.tar.gz", group="g"), deployment=jobs)["register-model"]["Arguments"]
    assert "/pytorch-inference:" in made["InferenceSpecification"]["Containers"][0]["Image"]


@pytest.mark.parametrize(
    "image", [stock_image("us-east-1", gpu=True).uri, stock_image("us-east-1", gpu=False, version="2.10").uri]
)
def test_a_training_image_that_would_serve_is_refused(image: str) -> None:
    for given, fields in (
        ({"image": image}, {}),
        ({}, {"deployment": Deployment(targets={"sagemaker": {"serving_image": image}})}),
    ):
        with pytest.raises(
            SpecError, match=r"training image, which has no server.*deployment\.targets\.sagemaker\.serving_image"
        ):
            steps(register(model="s3://b/m.tar.gz", group="g", **given), **fields)


def test_a_machine_that_the_serving_image_has_no_code_for_is_refused() -> None:
    made = register(model="s3://b/m.tar.gz", group="g").model_copy(update={"instance_types": ("ml.p2.xlarge",)})
    with pytest.raises(SpecError, match=r"ml\.p2\.xlarge has GPUs of the generation Kepler.*pytorch-inference"):
        steps(made)


def test_numbers_of_any_step_are_kept_as_before() -> None:
    scores = step(measure, model="s3://b/m.tar.gz")
    found = steps(scores, register(model="s3://b/m.tar.gz", metrics=scores, group="g"))["register-model"]["Arguments"]
    statistics = found["ModelMetrics"]["ModelQuality"]["Statistics"]
    assert statistics["S3Uri"] == output_file("measure", "metrics", "metrics.json")


def test_the_registry_of_the_platform() -> None:
    built = steps(
        step(judge, model="s3://b/m.tar.gz"),
        step(judge, name="named", model="s3://b/m.tar.gz", registry="mlflow:http://server"),
        step(judge, name="told", model="s3://b/m.tar.gz", environment={"DRIVETRAIN_REGISTRY": "local:x"}),
        step(measure, model="s3://b/m.tar.gz"),
    )
    environments = {name: dict(each["Arguments"]["Environment"]) for name, each in built.items()}
    assert all(each.pop("DRIVETRAIN_FRESH") for each in environments.values())
    assert environments["judge"] == {"DRIVETRAIN_REGISTRY": "sagemaker"}
    assert environments["named"] == environments["measure"] == {}
    assert environments["told"] == {"DRIVETRAIN_REGISTRY": "local:x"}


def test_what_looks_at_more_than_its_inputs_has_no_cache() -> None:
    built = steps(step(judge, model="s3://b/m.tar.gz"), step(measure, model="s3://b/m.tar.gz"))
    assert "CacheConfig" not in built["judge"] and built["measure"]["CacheConfig"] == {"Enabled": True}
