"""A deployment's blocks, one a target, and what was written before there were blocks."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Deployment, Keys, Pipeline, Settings, SpecError, UserError
from drivetrain.authoring.settings import build
from drivetrain.spec.deployment import OutsideOfBlockWarning, block_model, block_of
from drivetrain.targets.sagemaker.settings import Settings as SageMaker
from drivetrain.targets.sagemaker.settings import settings_of
from drivetrain.targets.target import target_names

BLOCK = {"bucket": "acme", "keys": {"volume": "alias/disks"}, "tags": {"team": "vision"}}


@pytest.fixture
def quiet() -> Any:
    """A warning is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("quiet")
def test_a_block_is_a_mapping_or_the_target_s_own_model() -> None:
    written = Deployment(targets={"sagemaker": BLOCK})
    typed = Deployment(
        targets={"sagemaker": SageMaker(bucket="acme", keys=Keys(volume="alias/disks"), tags={"team": "vision"})}
    )
    assert written == typed and settings_of(written).keys.volume == "alias/disks"
    assert settings_of(written).prefix == SageMaker().prefix, "the rest are defaults"
    assert settings_of(Deployment()) == SageMaker()


def test_a_deployment_without_blocks_is_the_same_and_says_how_to_write_it() -> None:
    kubeflow = {"namespace": "team-a"}
    how = r"deployment: \{targets: \{sagemaker: \{bucket: \.\.\., keys: \.\.\., "
    with pytest.warns(OutsideOfBlockWarning, match=how):
        flat = Deployment(target="kubeflow", targets={"kubeflow": kubeflow}, **BLOCK)  # type: ignore[call-arg]
    assert flat == Deployment(target="kubeflow", targets={"kubeflow": kubeflow, "sagemaker": BLOCK})
    assert flat.bucket == "acme" and flat.root == "s3://acme/pipelines"  # type: ignore[attr-defined]


@pytest.mark.usefixtures("quiet")
def test_a_pipeline_comes_back_from_json_with_its_blocks() -> None:
    pipeline = Pipeline(name="p", deployment=Deployment(targets={"sagemaker": BLOCK, "kubeflow": {"image": "a:1"}}))
    assert Pipeline.model_validate_json(pipeline.model_dump_json()) == pipeline


def test_each_source_of_settings_may_leave_the_block_out(tmp_path: Path) -> None:
    """One notice for all of them, and later sources win as ever."""
    file = tmp_path / "settings.yaml"
    file.write_text("deployment: {bucket: acme, region: eu-west-1, targets: {sagemaker: {prefix: vision}}}\n")
    environment = {
        "DRIVETRAIN_DEPLOYMENT__REGION": "eu-west-2",
        "DRIVETRAIN_DEPLOYMENT__TARGETS__SAGEMAKER__WHEELS": "w",
    }
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        built = build(Settings, file, ["deployment.region=eu-west-3", "deployment.experiment=2026"], environment)
    [notice] = [each for each in said if each.category is OutsideOfBlockWarning]
    assert "deployment.bucket, deployment.region, deployment.experiment: " in str(notice.message)
    assert built.deployment == Deployment(
        targets={
            "sagemaker": {
                "bucket": "acme",
                "region": "eu-west-3",
                "prefix": "vision",
                "wheels": "w",
                "experiment": "2026",
            }
        }
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{bucket: A b}", "deployment.targets.sagemaker.bucket (from FILE): give 3 to 63 lower-case letters"),
        ("{buckt: ab}", "Setting deployment.buckt (from FILE) does not exist. Did you mean 'bucket'?"),
        (
            "{targets: {sagemaker: {buckt: ab}}}",
            "deployment.targets.sagemaker.buckt (from FILE): there is no such setting. Did you mean 'bucket'?",
        ),
        (
            "{targets: {sagemaker: {keys: {volum: ab}}}}",
            "deployment.targets.sagemaker.keys.volum (from FILE): there is no such setting. Did you mean 'volume'?",
        ),
        ("{targets: {kubflow: {}}}", "there is no target 'kubflow'. Did you mean 'kubeflow'?"),
        ("{bucket: ab, targets: {sagemaker: {bucket: cd}}}", "bucket and targets.sagemaker.bucket are both given"),
        (
            "{bucket: abc, targets: [a]}",
            "Setting deployment.targets (from FILE) is ['a']: Input should be a valid dict",
        ),
        ("{targets: {sagemaker: abc}}", "Setting deployment.targets.sagemaker (from FILE) is 'abc': Input should be a"),
        ("{target: Kubeflow}", "Setting deployment.target (from FILE) is 'Kubeflow': give the name of a folder"),
    ],
)
@pytest.mark.filterwarnings("ignore::drivetrain.spec.deployment.OutsideOfBlockWarning")
def test_one_clear_error(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"deployment: {text}\n")
    with pytest.raises(UserError) as refused:
        build(Settings, file, (), {})
    assert said.replace("FILE", str(file)) in str(refused.value) and "\n" not in str(refused.value)


def test_a_wrong_block_in_code_is_refused_by_name_when_it_is_read() -> None:
    with pytest.raises(SpecError, match=r"^deployment\.targets\.sagemaker\.region: give a region of AWS, such as eu-"):
        settings_of(Deployment(targets={"sagemaker": {"region": "mars"}}))
    with pytest.raises(SpecError, match="there is no target 'kubflow'"):
        Deployment(targets={"kubflow": {}})
    with pytest.raises(AttributeError, match="buckt"):
        _ = Deployment().buckt  # type: ignore[attr-defined]


def test_a_copy_has_the_block_that_it_was_given() -> None:
    one = Deployment(targets={"sagemaker": {"bucket": "one"}})
    assert settings_of(one).bucket == "one"
    two = one.model_copy(update={"targets": Deployment(targets={"sagemaker": {"bucket": "two"}}).targets})
    assert (settings_of(two).bucket, settings_of(one).bucket) == ("two", "one")


@pytest.mark.parametrize("target", target_names())
def test_each_target_declares_its_block(target: str) -> None:
    model = block_model(target)
    assert model is not None and model() == model.model_validate({}), "every field has a default"
    assert block_of(Deployment(), target, model) == model()
    assert not model.model_fields.keys() & Deployment.model_fields.keys(), "a field without its block is told apart"
