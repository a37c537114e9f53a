"""The folder at /opt/ml: the files that SageMaker puts there, strings as strings, nothing outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.processes.container import Cluster, lay_out_processing, lay_out_training, loopback_hosts
from drivetrain.processes.mounts import rewrite_configuration

CLUSTER = Cluster(("127.0.0.1", "127.0.0.2"), "ml.g5.xlarge")
CHANNEL = {
    "ChannelName": "train",
    "ContentType": "text/csv",
    "InputMode": "FastFile",
    "DataSource": {"S3DataSource": {"S3Uri": "s3://b/k", "S3DataDistributionType": "ShardedByS3Key"}},
}


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_a_training_host(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    lay_out_training(
        root,
        CLUSTER,
        "127.0.0.2",
        hyperparameters={"epochs": "5", "lr": 0.1, "count": 3, "flag": True},
        input_data_config=[{**CHANNEL, "DataSource": {}}, {"ChannelName": "code"}],
        checkpoint_path="/opt/ml/kept",
    )
    config = root / "input" / "config"
    assert read(config / "hyperparameters.json") == {"epochs": "5", "lr": "0.1", "count": "3", "flag": "true"}
    plain = {"ContentType": "", "TrainingInputMode": "File", "S3DistributionType": "FullyReplicated"}
    assert read(config / "inputdataconfig.json") == {
        "train": {**plain, "ContentType": "text/csv", "TrainingInputMode": "FastFile", "RecordWrapperType": "None"},
        "code": {**plain, "RecordWrapperType": "None"},
    }
    hosts = ["127.0.0.1", "127.0.0.2"]
    group = {"instance_group_name": "homogeneousCluster", "instance_type": "ml.g5.xlarge", "hosts": hosts}
    assert read(config / "resourceconfig.json") == {
        "current_host": "127.0.0.2",
        "current_instance_type": "ml.g5.xlarge",
        "current_group_name": "homogeneousCluster",
        "hosts": hosts,
        "instance_groups": [group],
        "network_interface_name": "lo",
    }
    for folder in ("input/data", "model", "output/data", "kept", "code"):
        assert list((root / folder).iterdir()) == []


@pytest.mark.parametrize(("hosts", "place"), [(1, "tensors"), (2, "tensors/127.0.0.1")])
def test_a_hook_of_smdebug_saves_into_the_output(hosts: int, place: str, tmp_path: Path) -> None:
    hook = {"S3OutputPath": "s3://b/debugger", "HookParameters": {"save_interval": "5"}}
    cluster, given = Cluster(loopback_hosts(hosts), "ml.m5.large"), {"hyperparameters": {}, "input_data_config": []}
    lay_out_training(tmp_path / "with", cluster, "127.0.0.1", **given, debug_hook=hook)
    lay_out_training(tmp_path / "without", cluster, "127.0.0.1", **given, debug_hook={})
    config = tmp_path / "with/input/config/debughookconfig.json"
    assert read(config) == {**hook, "LocalPath": f"/opt/ml/output/data/{place}"}
    assert not (tmp_path / "without/input/config/debughookconfig.json").exists()
    rewrite_configuration(tmp_path / "with")
    assert read(config) == {**hook, "LocalPath": f"{tmp_path}/with/output/data/{place}"}


def test_a_processing_host(tmp_path: Path) -> None:
    root = tmp_path / "ml"
    job = {"ProcessingJobName": "p-1", "AppSpecification": {"ImageUri": "i"}, "Environment": {"A": "1"}}
    lay_out_processing(
        root,
        Cluster(("127.0.0.1",), "ml.m5.large"),
        "127.0.0.1",
        job=job,
        output_paths=["/opt/ml/processing/output/test"],
    )
    assert read(root / "config/processingjobconfig.json") == job
    assert read(root / "config/resourceconfig.json")["hosts"] == ["127.0.0.1"]
    assert (root / "processing/output/test").is_dir() and (root / "output").is_dir()


@pytest.mark.parametrize(
    "path", ["/opt/ml/../etc", "/opt/ml/a/../../b", "/etc", "relative", "/opt/ml", "/opt/mlx/a", "/opt/ml/../ml2/x"]
)
def test_a_path_outside_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(UserError, match=r"below /opt/ml without '\.\.'"):
        lay_out_processing(tmp_path / "ml", CLUSTER, "127.0.0.1", job={}, output_paths=[path])


def test_loopback_hosts() -> None:
    assert loopback_hosts(3) == ("127.0.0.1", "127.0.0.2", "127.0.0.3")
