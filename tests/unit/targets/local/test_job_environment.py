"""Where a job of this machine finds the registry and the objects that on the platform are a service's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fixtures.local_runs import BUCKET, LocalRuns

TELL = """
import json, os
from pathlib import Path
folder = Path("/opt/ml/processing/output/out")
folder = folder if folder.is_dir() else Path("/opt/ml/model")
(folder / "told.json").write_text(json.dumps({k: v for k, v in os.environ.items() if k.startswith("DRIVETRAIN_")}))
"""


def told(runs: LocalRuns, environment: dict[str, Any] | None = None) -> dict[str, str]:
    summary = runs.start([runs.processing("tell", TELL, outputs=["out"], environment=environment)])
    assert summary.status == "Succeeded", summary.reason
    return json.loads(runs.store.path(f"{BUCKET}/runs/{summary.execution}/tell/out/told.json").read_text())


@pytest.mark.parametrize("given", [None, {"DRIVETRAIN_REGISTRY": "sagemaker"}])
def test_a_job_asks_this_machine(runs: LocalRuns, given: dict[str, Any] | None) -> None:
    found = told(runs, given)
    assert found["DRIVETRAIN_REGISTRY"] == f"local:{runs.home.ledger}"
    assert found["DRIVETRAIN_OBJECT_STORE"] == str(runs.home.objects)
    assert found["DRIVETRAIN_DECODED_CACHE"] == str(runs.home.root / "decoded")


def test_what_is_named_stays(runs: LocalRuns) -> None:
    found = told(runs, {"DRIVETRAIN_REGISTRY": "mlflow:http://server", "DRIVETRAIN_DECODED_CACHE": "/elsewhere"})
    assert found["DRIVETRAIN_REGISTRY"] == "mlflow:http://server"
    assert found["DRIVETRAIN_DECODED_CACHE"] == "/elsewhere"


def test_a_training_is_told_too(runs: LocalRuns) -> None:
    import tarfile

    summary = runs.start([runs.training("fit", TELL)])
    assert summary.status == "Succeeded", summary.reason
    (archive,) = runs.home.objects.rglob("model.tar.gz")
    with tarfile.open(archive) as opened:
        member = opened.extractfile("told.json")
        assert member is not None
        assert json.loads(member.read())["DRIVETRAIN_REGISTRY"] == f"local:{runs.home.ledger}"
