"""The ready pipelines run, each with its own data; churn gives the same bytes wherever its definitions run."""

from __future__ import annotations

import json

import pytest

import drivetrain as dt
from drivetrain.authoring.loading import load
from drivetrain.run_store.events import ignore
from drivetrain.targets.kubeflow import target as kubeflow
from tests.fixtures.sagemaker_service.command_line import CommandLine
from tests.fixtures.target_results import results

pytestmark = pytest.mark.slow


def test_churn_predicts_the_same_bytes_on_every_target(drivetrain: CommandLine) -> None:
    """Here; by the definition that was deployed to SageMaker; and by Kubeflow's."""
    homes = {name: drivetrain.folder / name for name in ("here", "sagemaker", "kubeflow")}
    quick = {"rounds": 30}
    dt.run("churn", home=homes["here"], quiet=True, **quick)

    settings = {"targets": {"sagemaker": drivetrain.settings}}
    (drivetrain.folder / "churn.yaml").write_text(json.dumps({**quick, "deployment": settings}))
    drivetrain("apply", "churn", "--yes")
    client = drivetrain.account.client("sagemaker")
    deployed = client.describe_pipeline(PipelineName="churn")["PipelineDefinition"]
    (drivetrain.folder / "churn.json").write_text(deployed)
    drivetrain("run", "--definition", "churn.json", "--read-s3", "--home", homes["sagemaker"])

    loaded = load("churn", overrides=["rounds=30", "deployment.targets.kubeflow.checkpoint_claim=kept"])
    kubeflow.run(kubeflow.compile(loaded.pipeline, here=True), {}, homes["kubeflow"], ignore)

    found = {name: results(home) for name, home in homes.items()}
    assert found["here"]["status"] == "Succeeded"
    assert any(name.startswith("predictions/part") for name in found["here"]["outputs"]["evaluate.report"])
    for name in ("sagemaker", "kubeflow"):
        for part, expected in found["here"].items():
            assert found[name][part] == expected, (name, part)
