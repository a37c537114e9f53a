"""Training steps that the SageMaker SDK makes of something else: notebooks, and functions (`@step`)."""

from __future__ import annotations

import json
import tarfile
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.jobs import notebook_jobs
from drivetrain.targets.sagemaker.run.step_types import training
from tests.fixtures.local_runs import BUCKET, EXECUTION_ID, LocalRuns, join

CHANNEL = "sagemaker_headless_execution_pipelinestep"


def cell(source: str, *tags: str) -> dict[str, Any]:
    about = {"tags": list(tags)} if tags else {}
    return {
        "cell_type": "code", "execution_count": None, "id": f"c{abs(hash(source)) % 10**6}", "metadata": about,
        "outputs": [], "source": source,
    }  # fmt: skip


def notebook(*cells: dict[str, Any]) -> str:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def notebook_step(runs: LocalRuns, text: str, parameters: dict[str, str] | None = None, **environment: str) -> Any:
    """As NotebookJobStep.arguments of the SDK writes it."""
    runs.put("nb/input/report.ipynb", text)
    runs.put("nb/input/beside.txt", "from beside")
    return {
        "Name": "report",
        "Type": "Training",
        "Arguments": {
            "RoleArn": "arn:aws:iam::000000000000:role/Role",
            "RetryStrategy": {"MaximumRetryAttempts": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 172800},
            "EnableInterContainerTrafficEncryption": True,
            "AlgorithmSpecification": {
                "TrainingImage": "000000000000.dkr.ecr.us-east-1.amazonaws.com/sagemaker-distribution:3-cpu",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["amazon_sagemaker_scheduler"],
            },
            "InputDataConfig": [
                {
                    "ChannelName": CHANNEL,
                    "DataSource": {
                        "S3DataSource": {
                            "S3DataType": "S3Prefix",
                            "S3Uri": f"{BUCKET}/nb/input",
                            "S3DataDistributionType": "FullyReplicated",
                        }
                    },
                }
            ],
            "OutputDataConfig": {"S3OutputPath": join(f"{BUCKET}/nb", EXECUTION_ID, "report")},
            "ResourceConfig": {"VolumeSizeInGB": 30, "InstanceCount": 1, "InstanceType": "ml.m5.large"},
            "Environment": {
                "AWS_DEFAULT_REGION": "us-east-1",
                "SM_JOB_DEF_VERSION": "1.0",
                "SM_ENV_NAME": "sagemaker-default-env",
                "SM_SKIP_EFS_SIMULATION": "true",
                "SM_EXECUTION_INPUT_PATH": f"/opt/ml/input/data/{CHANNEL}",
                "SM_KERNEL_NAME": "python3",
                "SM_INPUT_NOTEBOOK_NAME": "report.ipynb",
                "SM_OUTPUT_NOTEBOOK_NAME": "report-out.ipynb",
                **environment,
            },
            **({"HyperParameters": parameters} if parameters else {}),
        },
    }


def executed(runs: LocalRuns, execution: str) -> list[dict[str, Any]]:
    """The cells of the notebook that the job left."""
    with Ledger(runs.home) as ledger:
        [row] = ledger.artifacts(execution, "report")[-1:]
    with tarfile.open(runs.store.path(row.uri)) as archive:
        file = archive.extractfile("report-out.ipynb")
        assert file is not None
        return json.load(file)["cells"]


@pytest.mark.slow
def test_a_notebook_runs_with_its_parameters_and_what_lies_beside_it(runs: LocalRuns) -> None:
    text = notebook(
        cell("name = 'nobody'", "parameters"), cell("print(name, open('beside.txt').read())"), cell("1 + 1")
    )
    step = notebook_step(runs, text, {"name": "it's me"}, SM_KERNEL_NAME="conda-env")
    summary = runs.start([step])
    assert summary.status == "Succeeded", summary.reason
    cells = executed(runs, summary.execution)
    assert "".join(cells[1]["source"]) == '# Parameters\nname = "it\'s me"'
    assert "".join(cells[2]["outputs"][0]["text"]) == "it's me from beside\n"
    assert "".join(cells[3]["outputs"][0]["data"]["text/plain"]) == "2"
    log = (runs.home.logs(summary.execution, "report", 1) / "127.0.0.1.log").read_text()
    assert "there is no kernel 'conda-env' here" in log and "it's me from beside" in log


@pytest.mark.slow
def test_a_cell_that_fails_fails_the_step_with_its_error(runs: LocalRuns) -> None:
    summary = runs.start([notebook_step(runs, notebook(cell("1 / 0")))])
    assert (summary.status, summary.reason) == ("Failed", "report: ZeroDivisionError: division by zero")


def test_a_notebook_that_cannot_run_here_is_refused(runs: LocalRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    step = notebook_step(runs, notebook(cell("1")))
    del step["Arguments"]["Environment"]["SM_INPUT_NOTEBOOK_NAME"]
    with pytest.raises(UserError, match="a notebook job needs SM_INPUT_NOTEBOOK_NAME in its Environment"):
        runs.start([step])
    monkeypatch.setattr(notebook_jobs.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install nbclient ipykernel.*--stub report=outputs\.json"):
        runs.start([notebook_step(runs, notebook(cell("1")))])


def function_step(name: str = "score") -> dict[str, Any]:
    """As _Job.compile of the SDK writes it."""
    base = f"{BUCKET}/functions/pipeline"
    return {
        "Name": name,
        "Type": "Training",
        "Arguments": {
            "RoleArn": "arn:aws:iam::000000000000:role/Role",
            "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
            "RetryStrategy": {"MaximumRetryAttempts": 1},
            "InputDataConfig": [
                {
                    "ChannelName": "sagemaker_remote_function_bootstrap",
                    "DataSource": {
                        "S3DataSource": {
                            "S3Uri": f"{base}/sagemaker_remote_function_bootstrap",
                            "S3DataType": "S3Prefix",
                        }
                    },
                }
            ],
            "OutputDataConfig": {"S3OutputPath": join(base, name, "2026-11-21-10-00-00", EXECUTION_ID, "results")},
            "AlgorithmSpecification": {
                "TrainingImage": "000000000000.dkr.ecr.us-east-1.amazonaws.com/base-python:3.10",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": [
                    "/bin/bash",
                    "/opt/ml/input/data/sagemaker_remote_function_bootstrap/job_driver.sh",
                ],
                "ContainerArguments": ["--s3_base_uri", base, "--region", "us-east-1"],
            },
            "ResourceConfig": {"VolumeSizeInGB": 30, "InstanceCount": 1, "InstanceType": "ml.m5.large"},
            "Environment": {},
        },
    }


def returned(step: str, path: str) -> dict[str, Any]:
    """What another step reads of a function's result (DelayedReturn of the SDK)."""
    uri = join({"Get": f"Steps.{step}.OutputDataConfig.S3OutputPath"}, "results.json")
    return {"Std:JsonGet": {"S3Uri": uri, "Path": path}}


def test_a_function_of_the_sdk_is_refused_and_a_stub_says_what_it_returns(runs: LocalRuns) -> None:
    good = {"Type": "GreaterThan", "LeftValue": returned("score", "Return[1]"), "RightValue": 0.9}
    steps = [
        function_step(),
        {
            "Name": "gate",
            "Type": "Condition",
            "DependsOn": ["score"],
            "Arguments": {"Conditions": [good], "IfSteps": [], "ElseSteps": []},
        },
    ]
    with pytest.raises(UserError, match=r"Python function of the SageMaker SDK \(@step\).*--stub score=outputs\.json"):
        runs.start(steps)
    for value, outcome in ((0.95, "yes"), (0.5, "no")):
        summary = runs.start(steps, stubs={"score": {"Return": ["m", value]}})
        assert summary.status == "Succeeded", summary.reason
        with Ledger(runs.home) as ledger:
            assert ledger.step(summary.execution, "gate").value == outcome
    with pytest.raises(
        UserError, match=r"--stub train: Return is for a Python function \(@step\), and the step is not one"
    ):
        runs.start([runs.training("train", "")], stubs={"train": {"Return": 1}})


def test_a_shell_is_no_notebook_job() -> None:
    """Only the driver's own word counts: other entry points are commands as any."""
    arguments = {"AlgorithmSpecification": {"ContainerEntrypoint": ["/bin/bash", "amazon_sagemaker_scheduler"]}}
    assert not notebook_jobs.is_one(arguments) and callable(training.check)


@pytest.mark.parametrize("name", ["learning-rate", "2nd", "lambda", "a b"])
def test_parameters_that_no_variable_can_be_named_by_are_refused(runs: LocalRuns, name: str) -> None:
    step = notebook_step(runs, notebook(), {"rate": "1", name: "2"})
    with pytest.raises(UserError, match=f"hyperparameter '{name}' would be a variable of the notebook"):
        runs.start([step])
