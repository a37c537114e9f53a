"""What a step's pod asks of the cluster: resources, nodes, images, claims and Secrets."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain import Cluster, Spot, step
from drivetrain.spec.resources import Checkpoint, Resources
from tests.fixtures.kubeflow_examples import compiled, container, document, fit, load, platform, score, trained

RAW = "s3://own/raw/"
STORE = {"root": "s3://own/p", "s3_endpoint": "http://minio:9000"}
SPOT = {
    "spot_tolerations": {"spot": "", "kind": "cheap"},
    "spot_node_selector": {"pool": "spot"},
    "node_selector": {"zone": "a"},
}


def named(name: str) -> dict[str, Any]:
    return {"secretName": name, "secretNameParameter": {"runtimeValue": {"constant": name}}}


def claimed(claim: str, folder: str) -> dict[str, Any]:
    return {"constant": claim, "mountPath": folder, "pvcNameParameter": {"runtimeValue": {"constant": claim}}}


def test_resources_that_a_step_asks_for() -> None:
    asked = Resources(cpu=1.5, memory_gib=4, accelerators=2, accelerator_type="amd.com/gpu")
    built = compiled(step(load, raw=RAW, cluster=Cluster(resources=asked)))
    assert container(built, "load")["resources"] == {
        "accelerator": {"resourceCount": "2", "resourceType": "amd.com/gpu"},
        "resourceCpuRequest": "1.5",
        "resourceMemoryRequest": "4Gi",
    }


@pytest.mark.parametrize(
    ("instance_type", "resources"),
    [
        ("ml.m5.4xlarge", {"resourceCpuRequest": "14.4", "resourceMemoryRequest": "55706Mi"}),
        ("ml.m5.xlarge", {"resourceCpuRequest": "1", "resourceMemoryRequest": "2Gi"}),
        (None, {"resourceCpuRequest": "1", "resourceMemoryRequest": "2Gi"}),
        (
            "ml.g5.xlarge",
            {
                "accelerator": {"resourceCount": "1", "resourceType": "nvidia.com/gpu"},
                "resourceCpuRequest": "3.6",
                "resourceMemoryRequest": "13926Mi",
            },
        ),
        ("ml.unheard.large", None),
    ],
)
def test_resources_of_a_machine_less_what_its_node_keeps(instance_type: str | None, resources: Any) -> None:
    built = compiled(step(load, raw=RAW, cluster=Cluster(instance_type=instance_type)))
    assert container(built, "load").get("resources") == resources


def test_a_training_asks_for_what_its_machine_has() -> None:
    built = compiled(trained(cluster=Cluster(instance_type="ml.m5.xlarge")), trained("other"))
    assert container(built, "train")["resources"]["resourceCpuRequest"] == "3.6"
    assert "resources" not in container(built, "other")


def test_requests_that_the_settings_say() -> None:
    asked = Resources(cpu=8, memory_gib=2.5)
    settings = {"pods": {"cpu": 0.5, "memory_gib": 0.5}, "steps": {"own": {"memory_gib": 1}, "both": {"cpu": 2}}}
    steps = [
        step(load, raw=RAW),
        step(load, name="own", raw=RAW),
        step(load, name="both", raw=RAW, cluster=Cluster(resources=asked)),
    ]
    built = compiled(*steps, settings=settings)
    found = {name: tuple(container(built, name)["resources"].values()) for name in ("load", "own", "both")}
    assert found == {"load": ("0.5", "512Mi"), "own": ("0.5", "1Gi"), "both": ("2", "2560Mi")}


def test_labels_and_annotations_of_pods() -> None:
    settings = {
        "pods": {"labels": {"team": "a", "sidecar.istio.io/inject": "false"}},
        "steps": {"load": {"labels": {"team": "b"}, "annotations": {"note": "it's free: text"}}},
    }
    built = compiled(step(load, raw=RAW), step(score, data=RAW), settings=settings)
    inject = {"sidecar.istio.io/inject": "false"}
    assert platform(built, "load")["podMetadata"] == {
        "annotations": {"note": "it's free: text"},
        "labels": {**inject, "team": "b"},
    }
    assert platform(built, "score")["podMetadata"] == {"labels": {**inject, "team": "a"}}


def test_the_region_of_storage_is_in_every_container() -> None:
    built = compiled(step(load, raw=RAW), settings={"region": "eu-central-1"})
    told = {each["name"]: each["value"] for each in container(built, "load")["env"]}
    assert told["AWS_REGION"] == told["AWS_DEFAULT_REGION"] == "eu-central-1"


def test_nodes_of_a_step_and_of_spot_trainings() -> None:
    own = Resources(node_selector={"gpu": "a100"}, tolerations={"gpu": "yes"})
    spot = Cluster(spot=Spot(max_wait_seconds=90_000), resources=own)
    built = compiled(trained(cluster=spot), step(load, raw=RAW), settings=SPOT)
    assert platform(built, "train")["nodeSelector"] == {"labels": {"gpu": "a100", "pool": "spot", "zone": "a"}}
    assert platform(built, "train")["tolerations"] == [
        {"key": "gpu", "operator": "Equal", "value": "yes"},
        {"key": "kind", "operator": "Equal", "value": "cheap"},
        {"key": "spot", "operator": "Exists"},
    ]
    assert platform(built, "load") == {"nodeSelector": {"labels": {"zone": "a"}}}


def test_a_limit_on_the_time_of_a_step() -> None:
    built = compiled(step(load, raw=RAW, cluster=Cluster(max_run_seconds=600)), step(load, name="other", raw=RAW))
    assert platform(built, "load") == {"activeDeadlineSeconds": 600}
    assert platform(built, "other") == {}


def test_images_and_how_they_are_pulled() -> None:
    settings = {"image": "own:1", "image_pull_policy": "Always", "image_pull_secret": "registry"}
    built = compiled(step(load, raw=RAW), step(load, name="other", raw=RAW, image="other:2"), settings=settings)
    assert container(built, "load")["image"] == "own:1"
    assert container(built, "other")["image"] == "other:2"
    assert platform(built, "load") == {"imagePullPolicy": "Always", "imagePullSecret": [named("registry")]}


def test_no_resources_are_requested_by_default() -> None:
    built = compiled(step(load, raw=RAW))
    assert built.platform == {} and "---" not in built.text


def test_custom_storage_by_endpoint_and_secret() -> None:
    built = compiled(step(load, raw=RAW), settings={**STORE, "s3_secret": "minio"})
    assert {each["name"]: each["value"] for each in container(built, "load")["env"][:-1]} == {
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": "http://minio:9000",
        "AWS_REGION": "us-east-1",
    }
    keys = [{"envVar": name, "secretKey": name} for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
    assert platform(built, "load")["secretAsEnv"] == [{"keyToEnv": keys, **named("minio")}]


def test_checkpoints_on_a_claim_that_trainings_alone_mount() -> None:
    built = compiled(step(fit, data=RAW), step(load, raw=RAW), settings={"checkpoint_claim": "kept"})
    assert platform(built, "fit")["pvcMount"] == [claimed("kept", "/drivetrain/checkpoints")]
    assert platform(built, "load") == {}
    words = dict(each["option"] for each in document(built, "fit")["arguments"])
    assert words["--checkpoints"]["place"].startswith("/drivetrain/checkpoints/p/fit/")


def test_checkpoints_at_a_uri_of_their_own_need_no_claim() -> None:
    kept = Checkpoint(uri="s3://own/kept/")
    built = compiled(trained(checkpoint=kept), settings={"checkpoint_claim": "kept"})
    words = dict(each["option"] for each in document(built, "train")["arguments"])
    assert words["--checkpoints"] == {"place": "s3://own/kept/"}
    assert platform(built, "train") == {}


def test_secrets_by_reference_and_volumes_of_all_steps_and_of_one() -> None:
    settings = {
        "s3_secret": "minio",
        "checkpoint_claim": "kept",
        "pods": {"secrets": {"TOKEN": "keys/token", "USER": "keys/user"}, "volumes": {"/data": "shared"}},
        "steps": {"fit": {"secrets": {"TOKEN": "other/token"}, "volumes": {"/models": "models"}}},
    }
    built = compiled(step(fit, data=RAW), step(load, raw=RAW), settings=settings)
    assert platform(built, "load") == {
        "pvcMount": [claimed("shared", "/data")],
        "secretAsEnv": [
            platform(built, "load")["secretAsEnv"][0],
            {
                "keyToEnv": [{"envVar": "TOKEN", "secretKey": "token"}, {"envVar": "USER", "secretKey": "user"}],
                **named("keys"),
            },
        ],
    }
    mounts = [claimed("kept", "/drivetrain/checkpoints"), claimed("shared", "/data"), claimed("models", "/models")]
    assert platform(built, "fit")["pvcMount"] == mounts
    assert [(each["secretName"], each["keyToEnv"]) for each in platform(built, "fit")["secretAsEnv"][1:]] == [
        ("keys", [{"envVar": "USER", "secretKey": "user"}]),
        ("other", [{"envVar": "TOKEN", "secretKey": "token"}]),
    ]
    assert "minio" in built.text and built.text.count("keys") > 0
