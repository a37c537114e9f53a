"""What a step's pod asks of the cluster: resources, nodes, images, claims and Secrets."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain import Cluster, Spot, step
from drivetrain.spec.resources import Checkpoint, Resources
from tests.fixtures.kubeflow_examples import compiled, container, document, fit, load, platform, trained

RAW = "s3://own/raw/"
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
        ("ml.m5.xlarge", {"resourceCpuRequest": "3.6", "resourceMemoryRequest": "13.6Gi"}),
        (
            "ml.g5.xlarge",
            {
                "accelerator": {"resourceCount": "1", "resourceType": "nvidia.com/gpu"},
                "resourceCpuRequest": "3.6",
                "resourceMemoryRequest": "13.6Gi",
            },
        ),
        ("ml.unheard.large", None),
        (None, None),
    ],
)
def test_resources_of_a_machine_less_what_its_node_keeps(instance_type: str | None, resources: Any) -> None:
    built = compiled(step(load, raw=RAW, cluster=Cluster(instance_type=instance_type)))
    assert container(built, "load").get("resources") == resources


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


def test_nothing_is_asked_of_the_platform_unless_somebody_says_so() -> None:
    built = compiled(step(load, raw=RAW))
    assert built.platform == {} and "---" not in built.text


def test_storage_of_ones_own_by_endpoint_and_secret() -> None:
    built = compiled(step(load, raw=RAW), settings={"s3_endpoint": "http://minio:9000", "s3_secret": "minio"})
    assert {"name": "AWS_ENDPOINT_URL_S3", "value": "http://minio:9000"} in container(built, "load")["env"]
    keys = [{"envVar": name, "secretKey": name} for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
    assert platform(built, "load")["secretAsEnv"] == [{"keyToEnv": keys, "optional": False, **named("minio")}]


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
                "optional": False,
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
