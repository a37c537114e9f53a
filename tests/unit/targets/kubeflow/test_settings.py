"""Wrong settings of Kubeflow's: the field, what was given, what is allowed in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from drivetrain import Deployment, SpecError
from drivetrain.targets.kubeflow.settings import Settings, settings_of
from drivetrain.targets.sagemaker.settings import Settings as SageMaker

BAD: list[tuple[dict[str, Any], str]] = [
    ({"namespace": "Team_A"}, "namespace: give 1 to 63 lower-case letters"),
    ({"namespace": "team-a\n"}, "namespace: give 1 to 63 lower-case letters"),
    ({"endpoint": "http://[::1/"}, "endpoint: its host has an unpaired bracket"),
    ({"endpoint": "http://münchen.example"}, "endpoint: it has letters beyond ASCII"),
    ({"endpoint": "https://host:99999"}, "endpoint: its port is no number from 1 to 65535"),
    ({"endpoint": "ml-pipeline:8888"}, "endpoint: it does not begin with http:// or https://"),
    ({"s3_endpoint": "http://host:0"}, "s3_endpoint: its port"),
    ({"root": "s3://models/"}, "root: give s3://BUCKET/FOLDER"),
    (
        {"root": "minio://models/p"},
        "root: give s3://BUCKET/FOLDER of letters, digits, '-', '_' and '/', without a '/' at",
    ),
    ({"registry": "kubeflow:http://host:99999"}, "registry: its port"),
    ({"registry": "kubflow:http://host"}, "registry: there is no kind of registry 'kubflow'. Did you mean 'kubeflow'?"),
    ({"registry": "http"}, "registry: give a kind and a place"),
    ({"image_pull_policy": "Sometimes"}, "image_pull_policy: Input should be 'Always', 'IfNotPresent' or 'Never'"),
    ({"trainer": {"keep": "ever"}}, "trainer.keep: Input should be 'never', 'failed' or 'always'"),
    ({"trainer": {"start_seconds": 0}}, "trainer.start_seconds: Input should be greater than or equal to 1"),
    ({"trainer": {"tensorflw": "x"}}, "trainer.tensorflw: there is no such setting. Did you mean 'tensorflow'?"),
    ({"infrastructure": {"dns": {"addresses": ["dns"]}}}, "infrastructure.dns.addresses.0: give an address by number"),
    ({"infrastructure": {"also": ["host"]}}, "infrastructure.also.0: it does not begin with http"),
    ({"region": "Frankfurt"}, "region: give 1 to 63 lower-case letters"),
    ({"pods": {"labels": {"team": "a b"}}}, "pods.labels.team: give at most 63 letters, digits"),
    ({"pods": {"labels": {"-team": "a"}}}, "pods.labels.-team.[key]: give [DOMAIN/]NAME"),
    ({"trainer": {"labels": {"queue": "q" * 64}}}, "trainer.labels.queue: give at most 63 letters, digits"),
    ({"trainer": {"annotations": {"/x": "y"}}}, "trainer.annotations./x.[key]: give [DOMAIN/]NAME"),
    *(
        ({"pods": {"volumes": {folder: "shared"}}}, f"pods.volumes.{folder}.[key]: {folder} is the platform's own")
        for folder in ("/dev/shm", "/s3", "/s3/models", "/gcs", "/minio", "/kfp-launcher", "/tmp/kfp_outputs", "/argo")
    ),
    *(
        ({"steps": {"fit": {"secrets": {name: "a/b"}}}}, f"steps.fit.secrets.{name}.[key]: the Trainer sets {name}")
        for name in ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")
    ),
    *(
        ({"pods": {"volumes": {folder: "shared"}}}, f"pods.volumes.{folder}.[key]: {folder} leads elsewhere")
        for folder in ("/data/../s3", "/./s3", "/s3/..")
    ),
    ({"node_selector": {"a b": "c"}}, "node_selector.a b.[key]: give [DOMAIN/]NAME"),
    ({"spot_tolerations": {"a b": ""}}, "spot_tolerations.a b.[key]: give [DOMAIN/]NAME"),
    ({"spot_node_selector": {"pool": "a b"}}, "spot_node_selector.pool: give at most 63 letters"),
    ({"nothing": 1}, "nothing: there is no such setting. "),
]


@pytest.mark.parametrize(("block", "said"), BAD, ids=[str(block)[:40] for block, _ in BAD])
def test_one_line_in_words(block: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as refused:
        settings_of(Deployment(targets={"kubeflow": block}))
    message = str(refused.value)
    assert message.startswith(f"deployment.targets.kubeflow.{said}") and "\n" not in message
    assert "pattern" not in message and "[a-z" not in message, "no regular expression"


@pytest.mark.parametrize(
    ("given", "region"),
    [
        ({}, None),
        ({"region": "eu-central-1"}, "eu-central-1"),
        ({"s3_endpoint": "http://seaweedfs.kubeflow:9000"}, "us-east-1"),
        ({"s3_endpoint": "http://seaweedfs.kubeflow:9000", "region": "garage"}, "garage"),
    ],
)
def test_the_region_of_storage(given: dict[str, Any], region: str | None) -> None:
    assert settings_of(Deployment(targets={"kubeflow": given})).storage_region == region


@pytest.mark.parametrize("kind", [Settings, SageMaker, Deployment])
def test_every_form_is_said_in_words_that_hold_an_example(kind: type[BaseModel]) -> None:
    """The pattern of a field of pydantic's own would be shown as it is."""
    forms = list(_forms(kind.model_json_schema()))
    assert forms
    assert [form["pattern"] for form in forms if "such as" not in form.get("$comment", "")] == []


def _forms(schema: Any) -> Iterator[dict[str, Any]]:
    """Every part of a schema that has a pattern."""
    if isinstance(schema, dict):
        if "pattern" in schema:
            yield schema  # type: ignore[reportUnknownVariableType]
        for inner in schema.values():  # type: ignore[reportUnknownVariableType]
            yield from _forms(inner)
    elif isinstance(schema, list):
        for inner in schema:  # type: ignore[reportUnknownVariableType]
            yield from _forms(inner)
