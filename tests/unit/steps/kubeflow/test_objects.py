"""Errors of a pod's objects: what the user has to mend, and what can be tried again. No network is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivetrain.aws import s3
from drivetrain.steps.kubeflow import objects
from drivetrain.steps.kubeflow.task import RetryError, TaskError


@pytest.fixture(autouse=True)
def pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod whose credentials come from an agent beside it, which does not answer."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/creds")
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)


def test_temporarily_unavailable_credentials_can_be_retried() -> None:
    with pytest.raises(RetryError, match=r"^s3://bucket/key: .*credentials.* It can be tried again\.$"):
        objects.read("s3://bucket/key")


def test_a_pod_without_credentials_is_told_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    with pytest.raises(TaskError, match=r"^s3://bucket/key: Unable to locate credentials.* Give the pods a role"):
        objects.read("s3://bucket/key")


def test_an_invalid_endpoint_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "minio:9000")
    with pytest.raises(TaskError, match="Invalid endpoint: minio:9000"):
        objects.read("s3://bucket/key")


def test_credentials_that_fail_midway_can_be_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = s3.Client._opened

    def reached(self: s3.Client) -> Any:
        self._reached = True
        return opened(self)

    monkeypatch.setattr(s3.Client, "_opened", reached)
    with pytest.raises(RetryError, match="It can be tried again"):
        objects.download("s3://bucket/folder", Path("unused"))


@pytest.mark.parametrize("name", ["/b.txt", "../b.txt", "x/../../b.txt"])
def test_a_key_that_leaves_the_folder_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3.Client, "listed", lambda self, prefix: [{"Key": f"{prefix}{name}"}])
    with pytest.raises(TaskError, match="leads out of its folder"):
        objects.download("s3://bucket/folder", tmp_path)


@pytest.mark.parametrize("name", ["", "/", "x/"])
def test_folder_markers_create_no_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3.Client, "listed", lambda self, prefix: [{"Key": f"folder/{name}"}])
    objects.download("s3://bucket/folder", tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
