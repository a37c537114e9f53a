"""What SDK v3 makes of a ModelTrainer runs on this machine, from its definition and its files in S3 (--read-s3)."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.events import StepFinished
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.local_runs import LocalRuns
from tests.fixtures.s3_server import environment
from tests.fixtures.sagemaker_service.server import TestAccount
from tests.sdk.conftest import run

pytestmark = pytest.mark.sdk
SCRIPT = """
import argparse, json, os, sys
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--flag", type=bool)
parser.parse_known_args()
total = 1
if "WORLD_SIZE" in os.environ:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    number = torch.ones(1)
    dist.all_reduce(number)
    total = int(number.item())
    dist.destroy_process_group()
if int(os.environ.get("RANK", 0)) == 0:
    found = {"argv": sys.argv[1:], "total": total, "greeting": os.environ["GREETING"], "hps": os.environ["SM_HPS"]}
    Path(os.environ["SM_MODEL_DIR"], "found.json").write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, account: TestAccount) -> tuple[dict[str, Any], str]:
    """The definitions, and the bucket into which the SDK has put what they read."""
    folder, client = tmp_path_factory.mktemp("trainers"), account.client("s3")
    (folder / "source").mkdir()
    (folder / "source" / "train.py").write_text(SCRIPT)
    bucket = account.make_bucket()
    client.put_object(Bucket=bucket, Key="data/a.csv", Body=b"1\n")
    role = f"arn:aws:iam::{account.number}:role/pipelines"
    said = run("model_trainer.py", folder, bucket, role, folder / "source", **account.variables)
    return said, bucket


@pytest.mark.parametrize(("kind", "total"), [("script", 1), ("torchrun", 2), ("hosts", 2), ("mpi", 2)])
def test_a_model_trainer_runs_from_its_definition(
    made: tuple[dict[str, Any], str], account: TestAccount, tmp_path: Path, kind: str, total: int
) -> None:
    if kind == "mpi" and shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun")
    definitions, bucket = made
    runs = LocalRuns(tmp_path)
    options = Options(pipeline=kind, read_s3=True)
    with environment(account.variables):
        summary = Runner(runs.home, runs.events.append).start(json.dumps(definitions[kind]), {"Epochs": 3}, options)
    assert summary.status == "Succeeded", summary.reason
    (model,) = (runs.home.objects / bucket / "out").rglob("model.tar.gz")
    with tarfile.open(model) as archive:
        member = archive.extractfile("found.json")
        assert member is not None
        found = json.loads(member.read())
    assert found["argv"] == ["--epochs", "3", "--flag", "true", "--sizes", '[1, "a"]']
    assert (found["total"], found["greeting"]) == (total, "hello")
    assert json.loads(found["hps"]) == {"epochs": 3, "flag": True, "sizes": [1, "a"]}
    (line,) = [event.value or "" for event in runs.events if isinstance(event, StepFinished)]
    assert "warning: train.py, line 7: --flag has type=bool" in line
