"""Where a job of this machine finds the registry and the objects that on the platform are a service's."""

from __future__ import annotations

import importlib
import inspect
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from drivetrain import components
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


NAMES = {"DRIVETRAIN_REGISTRY", "DRIVETRAIN_OBJECT_STORE"}


def test_a_job_that_asks_the_registry_asks_this_machine(runs: LocalRuns) -> None:
    found = told(runs, {"DRIVETRAIN_REGISTRY": "sagemaker"})
    assert found["DRIVETRAIN_REGISTRY"] == f"local:{runs.home.ledger}"
    assert found["DRIVETRAIN_OBJECT_STORE"] == str(runs.home.objects)


def test_a_job_that_names_a_registry_finds_the_models_of_this_machine(runs: LocalRuns) -> None:
    step = runs.processing("tell", TELL, outputs=["out"])
    step["Arguments"]["AppSpecification"]["ContainerArguments"] = ["--registry", "mlflow:http://server"]
    summary = runs.start([step])
    found = json.loads(runs.store.path(f"{BUCKET}/runs/{summary.execution}/tell/out/told.json").read_text())
    assert found["DRIVETRAIN_OBJECT_STORE"] == str(runs.home.objects)


def test_other_jobs_do_not_get_the_ledger_location(runs: LocalRuns) -> None:
    """A program of a user's own; it could change what another step wrote."""
    found = told(runs)
    assert NAMES.isdisjoint(found)
    assert found["DRIVETRAIN_DECODED_CACHE"] == str(runs.home.root / "decoded")
    assert not [name for name, value in found.items() if str(runs.home.ledger) in value]


def test_a_training_does_not_get_the_ledger_location(runs: LocalRuns) -> None:
    summary = runs.start([runs.training("fit", TELL)])
    assert summary.status == "Succeeded", summary.reason
    (archive,) = runs.home.objects.rglob("model.tar.gz")
    with tarfile.open(archive) as opened:
        member = opened.extractfile("told.json")
        assert member is not None
        assert NAMES.isdisjoint(json.loads(member.read()))


@pytest.mark.parametrize("name", sorted(path.stem for path in Path(components.__path__[0]).glob("[a-z]*.py")))
def test_each_component_that_asks_the_registry_has_a_parameter_for_it(name: str) -> None:
    """By that a target knows whom to tell where the registry is, and the objects of S3."""
    module = importlib.import_module(f"drivetrain.components.{name}")
    source = inspect.getsource(module)
    # What train_on_sagemaker fetches lies in S3, also in a run on this machine.
    asks = ("open_registry(" in source or "artifacts import" in source) and name != "train_on_sagemaker"
    assert ("registry" in inspect.signature(getattr(module, name).function).parameters) == asks


def test_an_explicit_registry_is_kept(runs: LocalRuns) -> None:
    found = told(runs, {"DRIVETRAIN_REGISTRY": "mlflow:http://server", "DRIVETRAIN_DECODED_CACHE": "/elsewhere"})
    assert found["DRIVETRAIN_REGISTRY"] == "mlflow:http://server"
    assert found["DRIVETRAIN_DECODED_CACHE"] == "/elsewhere"
