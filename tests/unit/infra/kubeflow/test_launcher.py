"""The block by which the launcher of Pipelines finds a store beside AWS, and the patch that adds it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from drivetrain.infra.kubeflow import launcher, manifests
from drivetrain.infra.kubeflow.needs import needs_of
from tests.fixtures.kubeflow_infra import full, one_node

# What was tried with the real launcher of 2.5.0, 2.15.0 and 2.17.0, and SeaweedFS.
WORKED: dict[str, Any] = {
    "s3": {
        "default": {
            "endpoint": "http://seaweedfs.kubeflow:9000",
            "region": "us-east-1",
            "disableSSL": True,
            "forcePathStyle": True,
            "credentials": {
                "fromEnv": False,
                "secretRef": {
                    "secretName": "s3-credentials",
                    "accessKeyKey": "AWS_ACCESS_KEY_ID",
                    "secretKeyKey": "AWS_SECRET_ACCESS_KEY",
                },
            },
        }
    }
}


def block(**settings: Any) -> Any:
    return launcher.providers(needs_of(one_node(**settings)))


def test_the_block_that_worked_on_a_stock_installation() -> None:
    assert block(s3_endpoint="http://seaweedfs.kubeflow:9000", s3_secret="s3-credentials") == WORKED


def test_it_follows_from_the_settings() -> None:
    found = block(s3_endpoint="https://store.example.com", region="eu-1")["s3"]["default"]
    assert found == {
        "endpoint": "https://store.example.com",
        "region": "eu-1",
        "disableSSL": False,
        "forcePathStyle": True,
        "credentials": {"fromEnv": True},
    }


def patched(data: dict[str, str]) -> dict[str, str] | None:
    """A ConfigMap's data after the patch, as RFC 6902 has it; None where it is refused."""
    after = dict(data)
    for step in yaml.safe_load(launcher.patch(needs_of(full())) or ""):
        key = step["path"].removeprefix("/data/")
        if step["op"] == "test" and after.get(key) != step["value"]:
            return None
        if step["op"] == "add":
            after[key] = step["value"]
    return after


def test_the_patch_adds_the_block_and_keeps_the_rest() -> None:
    found = patched({"defaultPipelineRoot": "s3://mlpipeline"})
    assert found is not None and found.pop("defaultPipelineRoot") == "s3://mlpipeline"
    assert yaml.safe_load(found.pop("providers")) == launcher.providers(needs_of(full()))
    assert found == {}


def test_the_patch_never_replaces_a_block_that_is_there() -> None:
    assert patched({"providers": "gs: {}"}) is None


def test_the_note_says_how_to_apply_it() -> None:
    (note,) = [note for note in manifests.notes(full()) if "kfp-launcher" in note]
    assert "kubectl -n team-a patch configmap kfp-launcher --type json --patch-file kfp-launcher-patch.yaml" in note
    assert "is refused where providers is there already" in note


@pytest.mark.parametrize("region", [None, "eu-central-1"])
def test_on_aws_the_region_alone_is_needed(region: str | None) -> None:
    pipeline = full(s3_endpoint=None, region=region)
    assert launcher.PATCH_FILE not in manifests.files(pipeline)
    found = [note for note in manifests.notes(pipeline) if "region" in note]
    assert len(found) == (region is None) and all("no block in kfp-launcher" in note for note in found)
