"""The folder at /opt/ml: the files that SageMaker puts there, strings as strings, nothing outside."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.targets.local.containers.opt_ml import (
    Cluster,
    Input,
    copy,
    lay_out_processing,
    lay_out_training,
    loopback_hosts,
    training_input,
)

CLUSTER = Cluster(("127.0.0.1", "127.0.0.2"), "ml.g5.xlarge")
CHANNEL = {
    "ChannelName": "train",
    "ContentType": "text/csv",
    "InputMode": "FastFile",
    "DataSource": {"S3DataSource": {"S3Uri": "s3://b/k", "S3DataDistributionType": "ShardedByS3Key"}},
}


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    for name in ("b.csv", "a.csv", "deep/c.csv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_a_training_host(tmp_path: Path, source: Path) -> None:
    root = tmp_path / "ml"
    lay_out_training(
        root,
        CLUSTER,
        "127.0.0.2",
        hyperparameters={"epochs": "5", "lr": 0.1, "count": 3, "flag": True},
        input_data_config=[{**CHANNEL, "DataSource": {}}, {"ChannelName": "code"}],
        inputs=[Input("train", source, "/opt/ml/input/data/train")],
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
    assert (root / "input/data/train/deep/c.csv").read_text() == "deep/c.csv"
    for folder in ("model", "output/data", "checkpoints", "code"):
        assert list((root / folder).iterdir()) == []


def test_a_sharded_channel_is_dealt_out(tmp_path: Path, source: Path) -> None:
    seen: list[str] = []
    for host in CLUSTER.hosts:
        root = tmp_path / host
        inputs = [training_input(CHANNEL, source)]
        lay_out_training(root, CLUSTER, host, hyperparameters={}, input_data_config=[CHANNEL], inputs=inputs)
        files = sorted(str(p.relative_to(root / "input/data/train")) for p in root.rglob("*.csv"))
        seen += files
        assert files == (["a.csv", "deep/c.csv"] if host == "127.0.0.1" else ["b.csv"])
    assert sorted(seen) == ["a.csv", "b.csv", "deep/c.csv"]


def test_a_processing_host(tmp_path: Path, source: Path) -> None:
    root = tmp_path / "ml"
    job = {"ProcessingJobName": "p-1", "AppSpecification": {"ImageUri": "i"}, "Environment": {"A": "1"}}
    lay_out_processing(
        root,
        Cluster(("127.0.0.1",), "ml.m5.large"),
        "127.0.0.1",
        job=job,
        inputs=[
            Input("data", source, "/opt/ml/processing/input/data"),
            Input("one", source / "a.csv", "/opt/ml/processing/input/one"),
        ],
        output_paths=["/opt/ml/processing/output/test"],
    )
    assert read(root / "config/processingjobconfig.json") == job
    assert read(root / "config/resourceconfig.json")["hosts"] == ["127.0.0.1"]
    assert (root / "processing/input/data/b.csv").read_text() == "b.csv"
    assert (root / "processing/input/one/a.csv").read_text() == "a.csv"
    assert (root / "processing/output/test").is_dir() and (root / "output").is_dir()


def test_a_program_that_changes_its_input_changes_nothing_else(tmp_path: Path, source: Path) -> None:
    root = tmp_path / "ml"
    lay_out_processing(
        root, CLUSTER, "127.0.0.1", job={}, output_paths=[],
        inputs=[Input(name, source, f"/opt/ml/processing/{name}") for name in ("x", "y")],
    )  # fmt: skip
    with (root / "processing/x/a.csv").open("a") as file:
        file.write("changed")
    assert (source / "a.csv").read_text() == "a.csv" == (root / "processing/y/a.csv").read_text()


def test_checkpoints_are_the_folder_they_are_kept_in(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    for _ in range(2):  # a second attempt in the same tree
        lay_out_training(
            tmp_path / "ml", CLUSTER, "127.0.0.1", hyperparameters={}, input_data_config=[], inputs=[], checkpoints=kept
        )  # fmt: skip
    (tmp_path / "ml/checkpoints/step-1").write_text("x")
    assert (kept / "step-1").read_text() == "x"


@pytest.mark.parametrize(
    "path", ["/opt/ml/../etc", "/opt/ml/a/../../b", "/etc", "relative", "/opt/ml", "/opt/mlx/a", "/opt/ml/../ml2/x"]
)
def test_a_path_outside_is_refused(tmp_path: Path, source: Path, path: str) -> None:
    with pytest.raises(UserError, match=r"below /opt/ml without '\.\.'"):
        lay_out_processing(
            tmp_path / "ml", CLUSTER, "127.0.0.1", job={}, inputs=[Input("x", source, path)], output_paths=[]
        )  # fmt: skip


@pytest.mark.parametrize("name", ["..", ".", "a/b", "", ".hidden", "a b"])
def test_a_channel_name_is_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="Channel name"):
        training_input({"ChannelName": name}, tmp_path)


def test_a_missing_input_and_a_linked_folder_are_named(tmp_path: Path, source: Path) -> None:
    def place(folder: Path) -> None:
        lay_out_processing(
            tmp_path / "ml", CLUSTER, "127.0.0.1", job={}, inputs=[Input("x", folder, "/opt/ml/x")], output_paths=[]
        )  # fmt: skip

    with pytest.raises(UserError, match=r"Input 'x': .*nowhere does not exist"):
        place(tmp_path / "nowhere")
    (source / "loop").symlink_to(source)
    with pytest.raises(UserError, match="is a link to a folder"):
        place(source)


def test_copies_are_whole(tmp_path: Path) -> None:
    for size in (0, 1, (3 << 20) + 7):
        content = os.urandom(size)
        (tmp_path / "from").write_bytes(content)
        copy(tmp_path / "from", tmp_path / "to")
        assert (tmp_path / "to").read_bytes() == content


def test_loopback_hosts() -> None:
    assert loopback_hosts(3) == ("127.0.0.1", "127.0.0.2", "127.0.0.3")
    for count in (0, 255):
        with pytest.raises(UserError, match="1 to 254"):
            loopback_hosts(count)
