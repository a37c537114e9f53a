"""to_sagemaker_sdk: a Pipeline of the SDK that means what was compiled, and can be changed and deployed with it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from drivetrain.targets.sagemaker.document.difference.difference import differences
from tests.fixtures.sagemaker_service.server import TestAccount
from tests.sdk.conftest import DEFINITIONS

pytestmark = pytest.mark.sdk
REFERENCES = {
    "prepare": ["compare", "evaluate", "train"],
    "train": ["compare", "evaluate", "register-model"],
    "evaluate": ["compare", "register-model"],
    "compare": ["below-floors", "register", "register-model", "stop"],
    "register": ["below-floors", "register-model"],
    "below-floors": ["stop"],
    "register-model": [],
    "stop": [],
}


def test_the_sdk_pipeline_has_our_definition(offline: dict[str, Any]) -> None:
    said = offline["flagship"]
    assert len(said["compiled"]["Steps"]) == 5
    assert json.loads(said["sdk"]) == said["compiled"]


def test_a_spec_is_compiled_first(offline: dict[str, Any]) -> None:
    (step,) = json.loads(offline["from spec"])["Steps"]
    assert step == offline["flagship"]["compiled"]["Steps"][0]


@pytest.mark.parametrize("name", [path.name for path in DEFINITIONS])
def test_any_definition_is_kept(offline: dict[str, Any], name: str) -> None:
    (path,) = [path for path in DEFINITIONS if path.name == name]
    given, written = json.loads(path.read_text(encoding="utf-8")), json.loads(offline["others"][name])
    assert differences(given, written) == ()
    if name == "every_form.json":
        assert written == given


def test_the_sdk_sees_the_edges(offline: dict[str, Any]) -> None:
    assert offline["graph"] == REFERENCES


def test_steps_of_the_sdk_can_be_added(offline: dict[str, Any]) -> None:
    changed, graph = offline["changed"]["definition"], offline["changed"]["graph"]
    lines = {change.where: (change.old, change.new) for change in differences(offline["flagship"]["compiled"], changed)}
    check = {
        "Name": "check",
        "Type": "Condition",
        "Arguments": {
            "Conditions": [
                {
                    "Type": "Equals",
                    "LeftValue": {
                        "Std:JsonGet": {
                            "PropertyFile": {"Get": "Steps.evaluate.PropertyFiles.metrics"},
                            "Path": "accuracy",
                        }
                    },
                    "RightValue": 1.0,
                }
            ],
            "IfSteps": [
                {
                    "Name": "where",
                    "Type": "Fail",
                    "Arguments": {"ErrorMessage": {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}},
                }
            ],
            "ElseSteps": [],
        },
        "DependsOn": ["prepare"],
    }
    assert changed["Steps"][-1] == check
    assert lines["parameters.MinAccuracy.DefaultValue"] == (0.97, 0.5)
    assert {"parameters.Reason", "steps.train.DisplayName", "steps.check", "steps.where"} < set(lines)
    assert changed["Steps"][1]["DependsOn"] == ["prepare"]
    assert graph["evaluate"] == ["check", "compare", "register-model"]
    assert "where" in graph["train"]


def test_the_environment_is_restored_and_no_telemetry_is_sent(offline: dict[str, Any]) -> None:
    """The program also refuses every connection; it would have failed."""
    assert (offline["region before"], offline["region after"]) == (None, None)
    assert offline["region"] == "us-east-1", "the deployment's"
    assert offline["telemetry off"] == {"TelemetryOptOut": True}


def test_errors_are_one_line(offline: dict[str, Any]) -> None:
    assert offline["errors"] == {
        "no type": "the definition of wrong: Steps[0] ('stop') has no Type. Given: Name.",
        "nobody": "Step 'last' depends on 'stpo'. Did you mean 'stop'? Allowed: stop.",
        "trigger": "Step 'last': DependsOn: Trigger 'Faild'. Did you mean 'Failed'? Allowed: Any, Completed, Failed, "
        "Stopped.",
        "region": "The SDK's session works in us-east-1, and the pipeline is for eu-west-1, where its images are. Give "
        "a session of that region, or set deployment.targets.sagemaker.region.",
    }


def test_images_known_only_to_the_sdk(offline: dict[str, Any]) -> None:
    images = offline["images"]
    assert images["known"].endswith("/pytorch:2.13.0-cpu-amzn2023-sagemaker"), "ours comes first"
    assert images["older version"] == "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-training:2.8-gpu-py312"
    assert images["another framework"] == "141502667606.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-xgboost:1.7-1"
    isolated = "886529160074.dkr.ecr.us-iso-east-1.c2s.ic.gov/pytorch:2.13.0-cpu-amzn2023-sagemaker"
    assert (images["another region"], images["compiled for another region"]) == (isolated, isolated)


def test_unknown_images_are_refused(offline: dict[str, Any]) -> None:
    images = offline["images"]
    assert images["no version"].startswith("No stock image of pytorch 9.9 is known. Allowed: 2.10.0, ")
    assert images["no framework"].startswith("No stock image of 'pytorhc'. Did you mean 'pytorch'?")
    assert "is documented for region 'mars-east-1'" in images["no region"]


def test_upsert_uploads_then_creates_and_updates(online: dict[str, Any], account: TestAccount) -> None:
    deployed = account.client("sagemaker").describe_pipeline(PipelineName="retraining")
    assert online["created"] == online["updated"] == deployed["PipelineArn"]
    expected = online["deployed"]["definition"]
    (change,) = differences(expected, json.loads(deployed["PipelineDefinition"]))
    assert (change.where, change.old, change.new) == ("steps.train.Arguments.HyperParameters.epochs", "20", "21")
    tags = account.client("sagemaker").list_tags(ResourceArn=deployed["PipelineArn"])["Tags"]
    assert tags == [{"Key": "team", "Value": "vision"}]
    assert deployed["RoleArn"] == f"arn:aws:iam::{account.number}:role/pipelines"
    assert deployed["ParallelismConfiguration"] == {"MaxParallelExecutionSteps": 3}
    assert deployed["PipelineDescription"] == "Another one.", "what is given counts"


def test_objects_of_the_definition_are_in_the_bucket(online: dict[str, Any], account: TestAccount) -> None:
    assert online["uploaded again"] == 0
    s3 = account.client("s3")
    assets = online["deployed"]["assets"]
    assert {uri.rpartition("/")[2] for uri in assets} > {"start.py", "digits.csv.gz"}
    for uri, sha256 in assets.items():
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        assert bucket == online["bucket"]
        content = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        assert hashlib.sha256(content).hexdigest() == sha256


def test_settings_for_this_machine_are_refused_before_anything_is_written(online: dict[str, Any]) -> None:
    for name, said in zip(("bucket", "role"), online["unset"].values(), strict=True):
        assert said.startswith(f"deployment.targets.sagemaker.{name} is not set: ")
