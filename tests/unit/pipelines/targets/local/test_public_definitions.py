"""Definitions that other people wrote, run on this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.components.registries.local import LocalRegistry
from drivetrain.pipelines.definition.document import read
from drivetrain.pipelines.errors import UserError
from tests.fixtures.local_runs import LocalRuns

# They lie beside the repository and are no part of it.
FOLDER = Path(__file__).parents[6] / "shared" / "data" / "definitions"
DEFINITIONS = sorted(FOLDER.glob("*.json"))
ABALONE = FOLDER / "amazon-sagemaker-examples__sm-pipelines-preprocess-train-evaluate-b__e3eaf68e.json"
pytestmark = pytest.mark.skipif(not DEFINITIONS, reason="the shared definitions are not on this machine")
DATA = "s3://sagemaker-us-west-2-000000000000/abalone/abalone-dataset.csv"

PREPROCESS = """
import pathlib
lines = pathlib.Path("/opt/ml/processing/input/abalone-dataset.csv").read_text().splitlines()
for name, part in (("train", lines[:2]), ("validation", lines[2:3]), ("test", lines[3:])):
    folder = pathlib.Path("/opt/ml/processing") / name
    (folder / f"{name}.csv").write_text("\\n".join(part))
"""
TRAIN = """
import json, pathlib
given = json.loads(pathlib.Path("/opt/ml/input/config/hyperparameters.json").read_text())
assert given["num_round"] == "50"
rows = pathlib.Path("/opt/ml/input/data/train/train.csv").read_text().splitlines()
assert pathlib.Path("/opt/ml/input/data/validation/validation.csv").exists()
pathlib.Path("/opt/ml/model/xgboost-model").write_text(str(len(rows)))
"""
EVALUATE = """
import json, pathlib, tarfile
with tarfile.open("/opt/ml/processing/model/model.tar.gz") as archive:
    assert archive.getnames() == ["xgboost-model"]
assert pathlib.Path("/opt/ml/processing/test/test.csv").exists()
report = {"regression_metrics": {"mse": {"value": 4.5, "standard_deviation": 2.0}}}
pathlib.Path("/opt/ml/processing/evaluation/evaluation.json").write_text(json.dumps(report))
"""


def abalone(runs: LocalRuns, tmp_path: Path) -> dict[str, Any]:
    """What the example's bucket and images would bring."""
    data = tmp_path / "abalone-dataset.csv"
    data.write_text("M,0.4\nF,0.3\nM,0.2\nI,0.1\n")
    steps = read(ABALONE.read_text()).by_name
    for step, program in (("AbaloneProcess", PREPROCESS), ("AbaloneEval", EVALUATE)):
        code = steps[step].arguments["ProcessingInputs"][-1]["S3Input"]["S3Uri"]
        runs.store.put(code, program.encode())
    (tmp_path / "xgboost.py").write_text(TRAIN)
    return {
        "data": {DATA: str(data)},
        "image_commands": {"sagemaker-xgboost": (sys.executable, str(tmp_path / "xgboost.py"))},
        "stubs": {"AbaloneCreateModel-CreateModel": {"ModelName": "abalone"}, "AbaloneTransform": {}},
    }


def test_the_abalone_example_runs_from_its_definition_as_it_is(runs: LocalRuns, tmp_path: Path) -> None:
    summary = runs.start(ABALONE.read_text(), **abalone(runs, tmp_path))
    assert summary.status == "Succeeded", summary.reason
    assert runs.statuses() == {
        "AbaloneProcess": "Succeeded",
        "AbaloneTrain": "Succeeded",
        "AbaloneEval": "Succeeded",
        "AbaloneMSECond": "Succeeded",
        "AbaloneRegisterModel-RegisterModel": "Succeeded",
        "AbaloneCreateModel-CreateModel": "Succeeded",
        "AbaloneTransform": "Succeeded",
        "AbaloneMSEFail": "NotExecuted",
    }
    version = LocalRegistry(runs.home.ledger).version("AbaloneModelPackageGroupName", "latest")
    assert version.metrics["regression_metrics.mse.value"] == 4.5
    assert version.status == "PendingManualApproval"


def test_the_abalone_example_fails_by_its_own_decision(runs: LocalRuns, tmp_path: Path) -> None:
    summary = runs.start(ABALONE.read_text(), {"MseThreshold": "3.5"}, **abalone(runs, tmp_path))
    assert (summary.status, summary.reason) == ("Failed", "AbaloneMSEFail: Execution failed due to MSE > 3.5")


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: path.name[:40])
def test_every_definition_runs_or_says_step_by_step_what_it_lacks(runs: LocalRuns, path: Path) -> None:
    text = path.read_text()
    definition = read(text)
    given = {p.name: "x" if p.type == "String" else "1" for p in definition.parameters if p.default is None}
    try:
        summary = runs.start(text, given)
    except UserError as error:
        problems = str(error).splitlines()
        names = [step.name for step in definition.walk()]
        assert all(any(f"step {name!r}" in problem for name in names) for problem in problems)
        assert all(len(problem) < 700 for problem in problems)
    else:
        assert summary.status == "Succeeded" and json.loads(text)["Steps"] == []
