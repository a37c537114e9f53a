"""A definition with what SageMaker can do for a job, as it was reviewed; `make golden` writes it anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain import (
    Alternative,
    Cluster,
    Deployment,
    Keys,
    Mlflow,
    Network,
    Pipeline,
    TrainingOptions,
    step,
)
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from tests.golden.test_golden import without_code_hashes

GOLDEN = Path(__file__).with_name("training_options.json")
SERVER = "arn:aws:sagemaker:eu-west-1:111122223333:mlflow-tracking-server/runs"


def pipeline() -> Pipeline:
    data = step(prepare_data, name="prepare", raw="s3://own-bucket/raw/", key="id", label="label", test_percent=20)
    learnt = {"recipe": "digits_cnn", "strategy": "ddp", "epochs": 2}
    mounted = step(
        train,
        name="mounted",
        train="fsx://fs-0123456789abcdef0/mnt/train",
        cluster=Cluster(instance_type="ml.p4d.24xlarge", count=2, efa=True, warm_pool_seconds=1_800),
        options=TrainingOptions(
            max_pending_seconds=7_200, job_retries=3, remote_debug=True, mlflow=Mlflow(arn=SERVER, run="night")
        ),
        **learnt,
    )
    streamed = step(
        train,
        name="streamed",
        train=data["train"],
        validation=data["validation"],
        cluster=Cluster(
            count=2,
            alternatives=(Alternative(instance_type="ml.m5.2xlarge"), Alternative(instance_type="ml.c5.4xlarge")),
            network=Network(isolated=True),
        ),
        options=TrainingOptions(input_mode="FastFile", input_modes={"validation": "File"}, tensorboard=True),
        **learnt,
    )
    return Pipeline(
        name="options",
        steps=[data, mounted, streamed],
        deployment=Deployment(
            targets={
                "sagemaker": {
                    "region": "eu-west-1",
                    "bucket": "own-bucket",
                    "network": Network(subnets=("subnet-0a1b",), security_groups=("sg-0e1f",), encrypt_traffic=True),
                    "keys": Keys(volume="alias/volumes", output="alias/outputs"),
                    "mlflow": Mlflow(arn=SERVER, experiment="digits"),
                    "experiment": "digits",
                }
            }
        ),
    )


def test_a_pipeline_with_options(request: pytest.FixtureRequest) -> None:
    text = without_code_hashes(compile_pipeline(pipeline()).text)
    if request.config.getoption("--write-golden"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
