"""What steps say of themselves that only the account can run, and records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.reader import Ledger
from tests.fixtures.local_runs import BUCKET, LocalRuns


def said(runs: LocalRuns, step: dict[str, Any], **options: Any) -> dict[str, Any]:
    summary = runs.start([step], **options)
    assert summary.status == "Succeeded", summary.reason
    with Ledger(runs.home) as ledger:
        return dict(ledger.step(summary.execution, step["Name"]).response)


def test_an_emr_steps_properties_become_a_map_and_its_arguments_can_be_read(runs: LocalRuns) -> None:
    jar = {"Jar": "s3://b/a.jar", "Args": ["--out", "s3://b/o"], "Properties": [{"Key": "k", "Value": "v"}]}
    step = {"Name": "spark", "Type": "EMR", "Arguments": {"StepConfig": {"HadoopJarStep": jar}}}
    found = said(runs, step, stubs={"spark": {"ClusterId": "j-1"}})
    assert found["Config"] == {"Jar": "s3://b/a.jar", "Args": ["--out", "s3://b/o"], "Properties": {"k": "v"}}
    assert found["ClusterId"] == "j-1" and found["Status"] == {"State": "COMPLETED"}


def test_a_stub_without_the_property_file_that_is_read_is_refused_before_anything_starts(
    runs: LocalRuns, tmp_path: Path
) -> None:
    source = runs.processing("source", "", outputs=["report"])
    source["PropertyFiles"] = [{"PropertyFileName": "Report", "OutputName": "report", "FilePath": "report.json"}]
    read = {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.source.PropertyFiles.Report"}, "Path": "why"}}
    first = runs.processing("first", "print('started')")
    steps = [first, source, {"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": read}}]
    with pytest.raises(UserError, match=r"step 'stop': .*--stub source gives no property file 'Report'.*PropertyFiles"):
        runs.start(steps, stubs={"source": {}})
    assert not runs.home.ledger.exists()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "report.json").write_text('{"why": "too low"}')
    for stub in ({"PropertyFiles": {"Report": {"why": "too low"}}}, {"OutputFolders": {"report": str(folder)}}):
        assert "too low" in str(runs.start(steps, stubs={"source": stub}).reason)


def test_a_function_that_is_not_known_is_refused_before_anything_starts(runs: LocalRuns) -> None:
    step = {"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": {"Std:If": []}}}
    with pytest.raises(UserError, match="step 'stop': function 'Std:If' is not known here"):
        runs.start([step])


@pytest.mark.parametrize(("register", "used"), [(False, "old/constraints.json"), (True, "checks/constraints.json")])
def test_a_checks_baseline_is_what_was_supplied_or_the_new_one(runs: LocalRuns, register: bool, used: str) -> None:
    step = runs.processing("check", "", outputs=["result"])
    step["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"] = f"{BUCKET}/checks"
    step |= {
        "Type": "QualityCheck",
        "CheckType": "DATA_QUALITY",
        "RegisterNewBaseline": register,
        "SuppliedBaselineConstraints": f"{BUCKET}/old/constraints.json",
        "SuppliedBaselineStatistics": None,
    }
    found = said(runs, step, stubs={"check": {}})
    assert found["BaselineUsedForDriftCheckConstraints"] == f"{BUCKET}/{used}"
    assert found["CalculatedBaselineStatistics"] == f"{BUCKET}/checks/statistics.json"
    assert ("BaselineUsedForDriftCheckStatistics" in found) == register


def test_lineage_names_what_it_records_and_what_connects_it(runs: LocalRuns) -> None:
    source = {"SourceUri": "s3://bucket/data", "SourceTypes": []}
    step = {
        "Name": "record",
        "Type": "Lineage",
        "Arguments": {
            "Contexts": [{"ContextName": "Nightly", "ContextType": "Run", "Source": source}],
            "Artifacts": [{"ArtifactType": "Data", "Source": source}],
            "Associations": [
                {
                    "Source": {"Name": "s3://bucket/data", "Type": "Artifact"},
                    "Destination": {"Arn": "arn:aws:sagemaker:us-east-1:000000000000:model-package/m/1"},
                }
            ],
        },
    }
    found = said(runs, step)
    again = said(runs, step)
    assert found["ContextArns"] == {"Nightly": "arn:aws:sagemaker:us-east-1:000000000000:context/nightly"}
    [artifact] = found["ArtifactArns"].values()
    assert again["ArtifactArns"] == {"s3://bucket/data": artifact}  # the same thing has the same name
    assert found["Associations"][0] == {
        "SourceArn": artifact,
        "DestinationArn": "arn:aws:sagemaker:us-east-1:000000000000:model-package/m/1",
    }
    with Ledger(runs.home) as ledger:
        assert ledger.steps(ledger.execution("latest").id)[0].value == "1 artifact, 1 context, 1 association"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"Actions": [{"ActionType": "x"}]}, "an entry of Actions has no ActionName"),
        ({"Associations": [{"Source": {"Arn": "a"}}]}, "an association has no Destination"),
        ({"Actions": "all"}, "Actions is 'all'. Allowed: a list of objects"),
    ],
)
def test_lineage_that_names_nothing_is_refused(runs: LocalRuns, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        runs.start([{"Name": "record", "Type": "Lineage", "Arguments": arguments}])


def test_a_stub_of_a_transform_brings_its_output(runs: LocalRuns, tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "a.csv.out").write_text("0.5\n")
    step = {
        "Name": "predict",
        "Type": "Transform",
        "Arguments": {
            "ModelName": "elsewhere",
            "TransformInput": {"DataSource": {"S3DataSource": {"S3Uri": f"{BUCKET}/in", "S3DataType": "S3Prefix"}}},
            "TransformOutput": {"S3OutputPath": f"{BUCKET}/out"},
            "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
        },
    }
    said(runs, step, stubs={"predict": {"OutputFolders": {"output": str(tmp_path / "answers")}}})
    assert runs.read(f"{BUCKET}/out/a.csv.out") == "0.5\n"


@pytest.mark.parametrize(
    ("kind", "arguments", "member"),
    [
        ("BedrockCustomModel", {"ModelName": "m"}, "ModelArn"),
        ("BedrockCustomModelDeployment", {"ModelDeploymentName": "m"}, "ModelDeploymentArn"),
        ("BedrockModelImport", {"ImportedModelName": "m"}, "ImportedModelArn"),
        ("BedrockProvisionedModelThroughput", {"ProvisionedModelName": "m"}, "ProvisionedModelArn"),
        ("EMRServerless", {}, "arn"),
    ],
)
def test_an_arn_is_of_its_regions_partition(runs: LocalRuns, kind: str, arguments: dict[str, Any], member: str) -> None:
    step = {"Name": "it", "Type": kind, "Arguments": arguments}
    found = said(runs, step, stubs={"it": {}}, region="us-gov-west-1")
    arn = found.get("jobRun", found)[member]
    service = "emr-serverless" if kind == "EMRServerless" else "bedrock"
    assert arn.startswith(f"arn:aws-us-gov:{service}:us-gov-west-1:")
