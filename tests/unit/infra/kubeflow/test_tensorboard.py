"""The command of the written Deployment, run: TensorBoard finds a training's curves in an object store."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from drivetrain.infra.kubeflow.manifests import objects
from drivetrain.training.loop.journal import EventFile
from tests.fixtures.kubeflow_infra import one_node
from tests.fixtures.s3_server import make_bucket, s3_server, variables


@pytest.mark.slow
def test_tensorboard_reads_the_object_store(tmp_path: Path) -> None:
    import boto3

    endpoint = s3_server()
    bucket = make_bucket(endpoint)
    events = EventFile(tmp_path, step=0)
    events.add(1, {"loss": 1.5})
    events.close()
    keys = {name: value for name, value in variables(endpoint).items() if name != "AWS_ENDPOINT_URL_S3"}
    store = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=keys["AWS_REGION"],
        aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
    )
    (file,) = tmp_path.iterdir()
    store.upload_file(str(file), bucket, f"pipelines/small/run-1/train/output/tensorboard/{file.name}")

    deployment, _ = objects(one_node(root=f"s3://{bucket}/pipelines", s3_endpoint=endpoint))["tensorboard.yaml"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    python, *command = [re.sub("^--port=.*", "--port=0", word) for word in container["command"]]
    assert python == "python"
    told = {variable["name"]: variable["value"] for variable in container["env"]}
    with subprocess.Popen(
        [sys.executable, *command], env={**os.environ, **keys, **told}, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stderr is not None
            address = next(found[0] for line in running.stderr if (found := re.search(r"http://\S+/", line)))
            found = b""
            while b"loss" not in found:  # it answers before it has read; pytest's limit ends a test that hangs
                assert running.poll() is None
                with urllib.request.urlopen(f"{address}data/plugin/scalars/tags") as answer:
                    found = answer.read()
        finally:
            running.kill()  # asked to end in the middle of a request, it may forget it
    assert b"run-1/train/output/tensorboard" in found
