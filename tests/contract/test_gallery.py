"""The ready pipelines run with the data that they bring; churn gives the same bytes wherever its definitions run.

(digits: test_readme.py; retraining: test_targets_agree.py and others. The parts of own_script and per_site are run by
test_tutorials.py and test_for_each_pipeline.py.)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    quick = {"rounds": 10}
    dt.run("churn", home=homes["here"], quiet=True, **quick)

    settings = {"targets": {"sagemaker": drivetrain.settings}}
    (drivetrain.folder / "churn.yaml").write_text(json.dumps({**quick, "deployment": settings}))
    drivetrain("apply", "churn", "--yes")
    client = drivetrain.account.client("sagemaker")
    deployed = client.describe_pipeline(PipelineName="churn")["PipelineDefinition"]
    (drivetrain.folder / "churn.json").write_text(deployed)
    drivetrain("run", "--definition", "churn.json", "--read-s3", "--home", homes["sagemaker"])

    loaded = load("churn", overrides=["rounds=10", "deployment.targets.kubeflow.checkpoint_claim=kept"])
    kubeflow.run(kubeflow.compile(loaded.pipeline, here=True), {}, homes["kubeflow"], ignore)

    found = {name: results(home) for name, home in homes.items()}
    assert found["here"]["status"] == "Succeeded"
    assert any(name.startswith("predictions/part") for name in found["here"]["outputs"]["evaluate.report"])
    for name in ("sagemaker", "kubeflow"):
        for part, expected in found["here"].items():
            assert found[name][part] == expected, (name, part)

    scored = dt.run("batch_scoring", home=homes["here"], quiet=True)
    assert scored.status == "Failed" and "no version of churn is approved" in str(scored.reason)
    drivetrain("models", "approve", "churn", "1", "--home", homes["here"])
    scored = dt.run("batch_scoring", home=homes["here"], quiet=True)
    assert scored.status == "Succeeded", scored.reason
    assert scored.metrics["rows"] == 3000


SETTINGS: dict[str, dict[str, Any]] = {
    "finetuning": {"epochs": 1},
    "forecasting": {"rounds": 60},
    "own_script": {},
    "per_site": {"states": ["BE"], "rounds": 10},
    "text_classification": {},
    "tuning": {"trainings": 2, "rounds": 20},
}


@pytest.mark.nightly_cases("own_script", "per_site", "text_classification")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_ready_pipeline_runs(name: str, tmp_path: Path) -> None:
    run = dt.run(name, home=tmp_path, quiet=True, **SETTINGS[name])
    assert run.status == "Succeeded", run.reason
    if name == "forecasting":
        assert run.metrics["coverage"] > 0.75
