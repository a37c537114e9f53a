"""Scripts over SageMaker's own libraries run unchanged through train_script, here over stand-ins of the libraries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from drivetrain import Cluster, Pipeline, step
from drivetrain.base.errors import SpecError
from drivetrain.components.train_script import train_script
from drivetrain.spec.deployment import Deployment
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.target import find_target
from tests.fixtures.sagemaker_libraries import FOLDER

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "tests" / "fixtures" / "own_scripts" / "vendor"
DATA = '{"smdistributed": {"dataparallel": {"enabled": true}}}'
V1 = (
    '{"smdistributed": {"modelparallel": {"enabled": true, "parameters": {"partitions": 2, "microbatches": 2}}}, '
    '"mpi": {"enabled": true, "processes_per_host": 2}}'
)
V2 = (
    '{"smdistributed": {"modelparallel": {"enabled": true, "parameters": {"tensor_parallel_degree": %d}}}, '
    '"torch_distributed": {"enabled": true}}'
)
AWS = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
OWN_IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/ours:1"


def write_data(folder: Path) -> Path:
    folder.mkdir()
    draw = np.random.default_rng(0)
    np.savez(folder / "data.npz", x=draw.normal(size=(24, 8)), y=draw.integers(3, size=24))
    return folder


def run_script(folder: Path, script: str, distribution: str, *more: str, python: str = sys.executable) -> str:
    """What it prints, from a plain shell; its model is in `folder`/model."""
    (folder / "model").mkdir()
    words = [
        *(f"--train={folder / 'data'}", f"--model={folder / 'model'}", f"--output={folder / 'output'}"),
        *(f"--checkpoints={folder / 'checkpoints'}", f"--source={SCRIPTS}", f"--script={script}"),
        *(f"--distribution={distribution}", *more),
    ]
    environment = {**os.environ, "PYTHONPATH": f"{FOLDER}:{ROOT}", "OMP_NUM_THREADS": "1"}
    environment["SAGEMAKER_BASE_DIR"] = str(folder / "no-platform")
    command = [python, "-m", "drivetrain.components.train_script", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def by_hand(folder: Path) -> tuple[nn.Module, float]:
    """The training of both scripts in one process, without any library."""
    data = np.load(folder / "data" / "data.npz")
    images, labels = torch.from_numpy(data["x"]), torch.from_numpy(data["y"])
    torch.manual_seed(42)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss = torch.zeros(())
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    return model, loss.item()


needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Open MPI: apt-get install openmpi-bin")


@needs_mpirun
@pytest.mark.slow
def test_smddp_of_torch(tmp_path: Path) -> None:
    write_data(tmp_path / "data")
    printed = run_script(tmp_path, "smddp_torch.py", DATA, "--processes=2")
    expected, loss = by_hand(tmp_path)
    ((processes, told),) = re.findall(r"processes=(\d+) loss=([\d.]+)", printed)
    assert processes == "2" and abs(float(told) - loss) < 1e-11
    found = torch.load(tmp_path / "model" / "model.pt", weights_only=True)
    for name, values in expected.state_dict().items():
        torch.testing.assert_close(found[name], values, rtol=0, atol=1e-12)


@needs_mpirun
@pytest.mark.slow
def test_model_parallel_of_the_first_version(tmp_path: Path) -> None:
    """Two stages and two micro-batches, by mpirun; each stage saves its own file."""
    write_data(tmp_path / "data")
    printed = run_script(tmp_path, "smp_v1.py", V1)
    expected, loss = by_hand(tmp_path)
    ((processes, stages, told),) = re.findall(r"processes=(\d+) stages=(\d+) loss=([\d.]+)", printed)
    assert (processes, stages) == ("2", "2") and abs(float(told) - loss) < 1e-11
    wanted = dict(
        zip(("first.weight", "first.bias", "second.weight", "second.bias"), expected.parameters(), strict=True)
    )
    for stage in (0, 1):
        found = torch.load(tmp_path / "model" / f"model.pt_{stage}", weights_only=True)["model"]
        for name, values in wanted.items():
            torch.testing.assert_close(found[name], values.detach(), rtol=0, atol=1e-12)


def pipeline_of(script: str, distribution: str, machine: str, image: str | None = None, **more: Any) -> Pipeline:
    training = step(
        train_script._replace(**more) if more else train_script,
        name="fit",
        train="s3://bucket/data",
        script=script,
        distribution=distribution,
        image=image,
        cluster=Cluster(instance_type=machine, count=2),
    )
    return Pipeline(name="own", steps=[training])


def test_the_job_has_the_image_that_holds_the_library() -> None:
    compiled = compile_pipeline(pipeline_of("smddp_torch.py", DATA, "ml.p4d.24xlarge"), source=SCRIPTS)
    (job,) = compiled.definition["Steps"]
    image = job["Arguments"]["AlgorithmSpecification"]["TrainingImage"]
    assert image.endswith("/smdistributed-modelparallel:2.5.1-gpu-py311-cu124")
    assert job["Arguments"]["ResourceConfig"]["InstanceCount"] == 2
    assert job["Arguments"]["HyperParameters"]["distribution"] == DATA


def test_a_users_image_runs_versions_without_an_aws_image() -> None:
    made = pipeline_of("smp_v1.py", V1, "ml.p4d.24xlarge", OWN_IMAGE)
    (job,) = compile_pipeline(made, source=SCRIPTS).definition["Steps"]
    assert job["Arguments"]["AlgorithmSpecification"]["TrainingImage"] == OWN_IMAGE


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            pipeline_of("smddp_torch.py", DATA, "ml.g5.12xlarge"),
            r"cluster.instance_type: 'ml.g5.12xlarge' does not run .*Allowed: ml.p3dn.24xlarge, .*Or, on any mach",
        ),
        (
            pipeline_of("smddp_torch.py", V2 % 3, "ml.p4d.24xlarge"),
            r"distribution: tensor_parallel_degree 3 does not divide the job's 16 processes\. Change it, or the number",
        ),
        (
            pipeline_of("smp_v1.py", V1, "ml.p4d.24xlarge"),
            r"distribution: no image of AWS's with .* \(smp.step\) for pytorch has Python 3.11.*use strategy pp",
        ),
        (
            pipeline_of("smddp_tensorflow.py", DATA, "ml.p4d.24xlarge", needs=("tensorflow",)),
            r"distribution: no image .*the newest \(tensorflow 2.11.0\) has 3.9.*or use strategy tf_multi_worker",
        ),
        (
            pipeline_of(
                "smddp_torch.py",
                DATA,
                "ml.p4d.24xlarge",
                f"{AWS}/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04",
            ),
            r"image: 'pytorch-training:2.8.0-\S+' holds no .*Allowed are AWS's images of pytorch 2.5.1, .*Or use st",
        ),
        (
            pipeline_of("smddp_torch.py", DATA, "ml.p4d.24xlarge", f"{AWS}/pytorch-training:2.2.0-gpu-py310-cu121"),
            r"image: 'pytorch-training:2.2.0-\S+' has Python 3.10, and drivetrain's programs need 3.11",
        ),
        (
            pipeline_of("smp_v1.py", V1, "ml.p4d.24xlarge", f"{AWS}/pytorch-training:2.8.0-gpu-py312-cu129"),
            r"holds no .*\(smp.step\). Allowed are AWS's images of pytorch 2.0.0, 1.13.1, 1.12.1 for GPUs, or one of",
        ),
        (pipeline_of("smddp_torch.py", '{"smdistributed": {"data": {}}}', "ml.m5.large"), "no 'data' in smdistributed"),
    ],
    ids=["machine", "degree", "smp v1", "tensorflow", "image", "old Python", "image for smp v1", "distribution"],
)
def test_unsupported_machines_are_refused(made: Pipeline, said: str) -> None:
    with pytest.raises(SpecError, match=rf"(?s){said}"):
        compile_pipeline(made, source=SCRIPTS)


def test_a_region_that_has_no_such_image() -> None:
    place = {"targets": {"sagemaker": {"region": "me-south-1"}}}
    made = pipeline_of("smddp_torch.py", DATA, "ml.p4d.24xlarge").model_copy(
        update={"deployment": Deployment.model_validate(place)}
    )
    with pytest.raises(SpecError, match=r"sagemaker.region: 'me-south-1' has no image with .*Allowed: ap-northeast-1"):
        compile_pipeline(made, source=SCRIPTS)


def test_kubeflow_names_the_alternative() -> None:
    problems = find_target("kubeflow").check(pipeline_of("smddp_torch.py", DATA, "ml.p4d.24xlarge"))
    reasons = [each.reason for each in problems if each.field == "distribution"]
    assert reasons == [
        "'smddp' needs a library that only AWS's images hold, for AWS's machines. Give a script that is distributed by "
        "its framework alone, with the launcher torchrun."
    ]
