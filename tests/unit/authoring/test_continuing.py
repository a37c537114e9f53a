"""What `continue_from` of a training step becomes, on both targets."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain import Parameter, Pipeline, Settings, register, step, when
from drivetrain.base.errors import SpecError
from drivetrain.components.register_model import register_model
from drivetrain.components.train import train
from drivetrain.components.train_script import train_script
from drivetrain.spec.deployment import Deployment
from drivetrain.spec.pipeline import Graph

DATA = "s3://lake/train"
ARN = "arn:aws:sagemaker:eu-west-1:123456789012:pipeline/nightly/execution/0a1b2c3d4e5f"


def training(continue_from: Any, *, script: bool = False) -> Any:
    if script:
        return step(train_script, name="fit", train=DATA, source=DATA, script="train.py", continue_from=continue_from)
    return step(train, name="fit", train=DATA, continue_from=continue_from)


def pipeline(continue_from: Any, *, script: bool = False, group: Any = "digits", **fields: Any) -> Pipeline:
    fit = training(continue_from, script=script)
    return Pipeline(name="nightly", steps=[fit, register(model=fit["model"], group=group)], **fields)


def steps(built: Pipeline) -> list[Any]:
    return Graph(built).steps


def names(built: Pipeline) -> list[str]:
    return [step.name for step in steps(built)]


@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize(
    ("given", "group", "which"),
    [
        ("previous", "digits", "previous"),
        (7, "digits", "7"),
        ("7", "digits", "7"),
        ("other:previous", "other", "previous"),
        ("run:12", "digits", "run:12"),
        ("other:run:0a1b", "other", "run:0a1b"),
        (ARN, "digits", f"run:{ARN}"),
    ],
)
def test_a_version_is_found_in_each_execution_and_fetched_by_its_hash(
    given: Any, group: str, which: str, script: bool
) -> None:
    find, fetch, fit, registers = steps(pipeline(given, script=script))
    assert (find.name, fetch.name, fit.name) == ("fit-previous", "fit-continues", "fit")
    assert find.cache is not None and not find.cache.enabled and fetch.cache is None
    assert find.parameters == {"group": group, "which": which, "registry": "auto"}
    assert fetch.parameters["content_hash"] == find.text("content_hash")
    assert fetch.parameters["version"] == find.text("version")
    assert fit.inputs["continue_from"] == fetch["previous"]
    assert registers.metadata["drivetrain-lineage-continues"] == fetch.text("content_hash")


@pytest.mark.parametrize("given", ["s3://models/run-12/model.tar.gz", "s3://models/run-12/model/"])
def test_a_model_of_a_run_is_fetched_from_its_place(given: str) -> None:
    fetch, fit, _ = steps(pipeline(given))
    assert (fetch.inputs, fetch.parameters["version"]) == ({"model": given}, "")
    assert fetch.parameters["of_this_run"] is False, "a fresh start leaves it"
    assert fit.inputs["continue_from"] == fetch["previous"]


def test_a_model_of_the_same_run_is_that_of_a_fresh_start_too() -> None:
    before = step(train, name="before", train=DATA)
    fit = training(before["model"])
    fetch = steps(Pipeline(name="nightly", steps=[before, fit]))[1]
    assert (fetch.inputs, fetch.parameters["of_this_run"]) == ({"model": before["model"]}, True)


def test_without_continue_from_nothing_is_continued() -> None:
    for given in ("", None):
        built = pipeline(given)
        assert names(built) == ["fit", "register-model"]
        assert "continue_from" not in steps(built)[0].inputs


def test_explicit_continue_steps_are_left_unchanged() -> None:
    fit = training("previous")
    once = Pipeline(name="nightly", steps=[fit, register(model=fit["model"], group="digits")])
    assert Pipeline(name="nightly", steps=once.steps) == once


def test_the_group_comes_from_the_training_and_may_be_a_parameter() -> None:
    group = Parameter.string("Group", default="digits")
    find = steps(pipeline("previous", group=group, parameters=[group]))[0]
    assert find.parameters["group"] == group.ref()
    fit, other = training("previous"), step(train, name="other", train=DATA)
    elsewhere = step(
        register_model,
        name="elsewhere",
        model=fit["model"],
        artifact=fit["model"],
        group="mine",
        registry="mlflow:http://mlflow:5000",
    )
    built = Pipeline(name="two", steps=[fit, other, register(model=other["model"], group="theirs"), elsewhere])
    assert steps(built)[0].parameters == {"group": "mine", "which": "previous", "registry": "mlflow:http://mlflow:5000"}
    assert steps(built)[1].parameters["registry"] == "mlflow:http://mlflow:5000"


def test_a_training_in_a_branch_finds_its_previous_model_in_the_branch() -> None:
    go, fit = Parameter.boolean("Go", default=True), training("previous")
    gate = when(go.equals(True), then=[fit, register(model=fit["model"], group="digits")], name="gate")
    built = Pipeline(name="nightly", parameters=[go], steps=[gate])
    assert names(built) == ["gate", "fit-previous", "fit-continues", "fit", "register-model"]


@pytest.mark.parametrize(
    ("groups", "why"), [((), "this pipeline registers no model"), (("a", "b"), "registers models in several groups")]
)
def test_a_missing_group_is_refused(groups: tuple[str, ...], why: str) -> None:
    fit, other = training("previous"), step(train, name="other", train=DATA)
    registers = [register(model=other["model"], group=group, name=f"register-{group}") for group in groups]
    with pytest.raises(SpecError, match=rf'"previous" names no group|{why}. Name it: continue_from="GROUP:previous"'):
        Pipeline(name="none", steps=[fit, other, *registers])


@pytest.mark.parametrize("script", [False, True])
def test_continuing_compiles_for_sagemaker(script: bool) -> None:
    """The version and its hash are in the key of the fetching step, whose output's place is in that of the training."""
    from drivetrain.targets.sagemaker.compile.compile import compile_pipeline

    find, fetch, fit, _ = compile_pipeline(pipeline("previous", script=script), here=True).definition["Steps"]
    assert not find.get("CacheConfig", {}).get("Enabled") and fetch["CacheConfig"]["Enabled"]
    environment = find["Arguments"]["Environment"]
    assert environment["DRIVETRAIN_REGISTRY"] and environment["DRIVETRAIN_FRESH"] == {"Get": "Parameters.Fresh"}
    words = fetch["Arguments"]["AppSpecification"]["ContainerArguments"]
    read = words[words.index("--content-hash") + 1]["Std:JsonGet"]
    assert read == {"PropertyFile": {"Get": "Steps.fit-previous.PropertyFiles.metrics"}, "Path": "content_hash"}
    channels = {each["ChannelName"]: each for each in fit["Arguments"]["InputDataConfig"]}
    uri = channels["continue_from"]["DataSource"]["S3DataSource"]["S3Uri"]
    assert uri == {"Get": "Steps.fit-continues.ProcessingOutputConfig.Outputs['previous'].S3Output.S3Uri"}


@pytest.mark.parametrize("script", [False, True])
def test_continuing_compiles_for_kubeflow(script: bool) -> None:
    import yaml

    from drivetrain.targets.kubeflow.compile.compile import compile_pipeline

    place = Deployment(targets={"kubeflow": {"checkpoint_claim": "kept"}})
    built = Pipeline(name="nightly", steps=[training("digits:previous", script=script)], deployment=place)
    tasks = next(yaml.safe_load_all(compile_pipeline(built, here=True).text))["root"]["dag"]["tasks"]
    assert not tasks["fit-previous"]["cachingOptions"] and tasks["fit-continues"]["cachingOptions"]["enableCache"]
    given = tasks["fit-continues"]["inputs"]["parameters"]
    assert {"fit-previous-text-of-content_hash", "fit-previous-text-of-version"} <= set(given)
    assert tasks["fit"]["inputs"]["artifacts"]["continue_from"]["taskOutputArtifact"]["producerTask"] == "fit-continues"


def test_a_setting_is_enough_to_continue() -> None:
    class Own(Settings):
        continue_from: str = ""

    assert names(pipeline(Own().continue_from)) == ["fit", "register-model"]


@pytest.mark.parametrize("given", ["prevoius", "PREVIOUS", "latest", "dig:latest", "0", "v1"])
def test_an_invalid_version_word_is_refused(given: str) -> None:
    with pytest.raises(SpecError, match="names no version"):
        pipeline(given)
