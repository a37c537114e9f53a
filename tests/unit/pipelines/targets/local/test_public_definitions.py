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
BATCH = "s3://sagemaker-us-west-2-000000000000/abalone/abalone-dataset-batch"

# One image trains and serves, as its word says.
TRAIN = """
import json, os, pathlib, sys
if sys.argv[1:] == ["serve"]:
    from http.server import BaseHTTPRequestHandler, HTTPServer
    rings = pathlib.Path("/opt/ml/model/xgboost-model").read_bytes()
    class Requests(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(b"")
        def do_POST(self):
            rows = self.rfile.read(int(self.headers["Content-Length"])).splitlines()
            self.answer(b",".join(rings for _ in rows))
        def answer(self, body):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
    HTTPServer(("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"])), Requests).serve_forever()
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
    (tmp_path / "batch").mkdir()
    (tmp_path / "batch" / "rows.csv").write_text("0.1\n0.2\n")
    return {
        "data": {DATA: str(data), BATCH: str(tmp_path / "batch")},
        "image_commands": {"sagemaker-xgboost": (sys.executable, str(tmp_path / "xgboost.py"))},
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
    assert runs.read("s3://sagemaker-us-west-2-000000000000/AbaloneTransform/rows.csv.out") == "2,2"


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
