"""A deployment's blocks, one a target."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain import Deployment, Keys, Pipeline, Settings, SpecError, UserError
from drivetrain.authoring.settings import build
from drivetrain.spec.deployment import block_model, block_of
from drivetrain.targets.sagemaker.settings import Settings as SageMaker
from drivetrain.targets.sagemaker.settings import settings_of
from drivetrain.targets.target import target_names

BLOCK = {"bucket": "acme", "keys": {"volume": "alias/disks"}, "tags": {"team": "vision"}}


def test_a_block_is_a_mapping_or_the_settings_model_of_the_target() -> None:
    written = Deployment(targets={"sagemaker": BLOCK})
    typed = Deployment(
        targets={"sagemaker": SageMaker(bucket="acme", keys=Keys(volume="alias/disks"), tags={"team": "vision"})}
    )
    assert written == typed and settings_of(written).keys.volume == "alias/disks"
    assert settings_of(written).prefix == SageMaker().prefix, "the rest are defaults"
    assert settings_of(Deployment()) == SageMaker()


def test_a_pipeline_comes_back_from_json_with_its_blocks() -> None:
    pipeline = Pipeline(name="p", deployment=Deployment(targets={"sagemaker": BLOCK, "kubeflow": {"image": "a:1"}}))
    assert Pipeline.model_validate_json(pipeline.model_dump_json()) == pipeline


def test_each_source_of_settings_gives_fields_of_a_block(tmp_path: Path) -> None:
    """Later sources win as ever."""
    file = tmp_path / "settings.yaml"
    file.write_text("deployment: {targets: {sagemaker: {bucket: acme, region: eu-west-1, prefix: vision}}}\n")
    variable, option = "DRIVETRAIN_DEPLOYMENT__TARGETS__SAGEMAKER", "deployment.targets.sagemaker"
    environment = {f"{variable}__REGION": "eu-west-2", f"{variable}__WHEELS": "w"}
    built = build(Settings, file, [f"{option}.region=eu-west-3", f"{option}.experiment=2026"], environment)
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
        (
            "{targets: {sagemaker: {bucket: A b}}}",
            "deployment.targets.sagemaker.bucket (from FILE): give 3 to 63 lower-case letters",
        ),
        (
            "{bucket: ab}",
            "Setting deployment.bucket (from FILE) does not exist. It belongs in the block of its target: "
            "deployment.targets.sagemaker.bucket",
        ),
        ("{projct: ab}", "Setting deployment.projct (from FILE) does not exist. Did you mean 'project'?"),
        (
            "{targets: {sagemaker: {buckt: ab}}}",
            "deployment.targets.sagemaker.buckt (from FILE): there is no such setting. Did you mean 'bucket'?",
        ),
        (
            "{targets: {sagemaker: {keys: {volum: ab}}}}",
            "deployment.targets.sagemaker.keys.volum (from FILE): there is no such setting. Did you mean 'volume'?",
        ),
        ("{targets: {kubflow: {}}}", "there is no target 'kubflow'. Did you mean 'kubeflow'?"),
        ("{targets: [a]}", "Setting deployment.targets (from FILE) is ['a']: Input should be a valid dict"),
        ("{targets: {sagemaker: abc}}", "Setting deployment.targets.sagemaker (from FILE) is 'abc': Input should be a"),
        ("{target: Kubeflow}", "Setting deployment.target (from FILE) is 'Kubeflow': give the name of a folder"),
    ],
)
def test_a_wrong_block_is_one_clear_error(text: str, said: str, tmp_path: Path) -> None:
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
    with pytest.raises(SpecError, match=r"Deployment\.bucket does not exist"):
        Deployment(bucket="acme")  # type: ignore[call-arg]


def test_a_copy_keeps_its_block() -> None:
    one = Deployment(targets={"sagemaker": {"bucket": "one"}})
    assert settings_of(one).bucket == "one"
    two = one.model_copy(update={"targets": Deployment(targets={"sagemaker": {"bucket": "two"}}).targets})
    assert (settings_of(two).bucket, settings_of(one).bucket) == ("two", "one")


@pytest.mark.parametrize("target", target_names())
def test_each_target_declares_its_block(target: str) -> None:
    model = block_model(target)
    assert model is not None and model() == model.model_validate({}), "every field has a default"
    assert block_of(Deployment(), target, model) == model()
