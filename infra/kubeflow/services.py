"""Services beside a pipeline: TensorBoard on its runs, and the starter, which polls the model registry."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

from drivetrain.infra.kubeflow.access import starter_account, tensorboard_account
from drivetrain.infra.kubeflow.needs import Needs
from drivetrain.infra.kubeflow.objects import Json, Object, labels_of
from drivetrain.infra.kubeflow.pods import TMP, Container, Probe, deployment
from drivetrain.infra.kubeflow.starter import pipeline_text

PORT = 6006
# A token for the Pipelines API: https://www.kubeflow.org/docs/components/pipelines/user-guides/core-functions/connect-api/
TOKEN_FOLDER, TOKEN_AUDIENCE = "/var/run/secrets/kubeflow/pipelines", "pipelines.kubeflow.org"
PIPELINE_FOLDER, PIPELINE_FILE = "/etc/drivetrain/pipeline", "pipeline.json"
# The starter touches it after each look.
HEARTBEAT = f"{TMP}/polled"
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def tensorboard(needs: Needs) -> Iterator[Object]:
    """TensorBoard and its Service, for a pipeline with a training of ours."""
    if not needs.trains:
        return
    settings, labels = needs.settings, labels_of(needs.name, "tensorboard")
    environment = _region(needs)
    if settings.s3_endpoint is not None:
        environment["S3_ENDPOINT"] = settings.s3_endpoint  # as TensorBoard calls it where there is no TensorFlow
    yield deployment(
        pipeline=needs.name,
        part="tensorboard",
        namespace=settings.namespace,
        account=tensorboard_account(needs),
        container=Container(
            name="tensorboard",
            image=settings.infrastructure.image,
            command=(
                *("python", "-m", "tensorboard.main", "--bind_all", f"--port={PORT}"),
                *(f"--logdir={needs.root}", "--load_fast=false", "--reload_interval=300"),
            ),
            cpu="100m",
            memory="1Gi",
            pull_policy=settings.image_pull_policy,
            environment=environment,
            secret_environment=_store_secret(needs),
            port=PORT,
            probe=Probe(http_path="/"),
        ),
        openshift=settings.infrastructure.openshift,
        pull_secret=settings.image_pull_secret,
    )
    yield Object(
        api="v1",
        kind="Service",
        name=f"tensorboard-{needs.name}",  # which must not begin with a digit, as a pipeline's name may
        namespace=settings.namespace,
        labels=labels,
        fields={"spec": {"ports": [{"name": "http", "port": 80, "targetPort": "http"}], "selector": labels}},
    )


def starter(needs: Needs) -> Iterator[Object]:
    """The starter of registry events, and what it is told of the pipeline, for one that has such triggers."""
    if not needs.events:
        return
    settings = needs.settings
    text = pipeline_text(needs.pipeline)
    yield Object(
        api="v1",
        kind="ConfigMap",
        name=f"{needs.name}-starter",
        namespace=settings.namespace,
        labels=labels_of(needs.name, "starter"),
        fields={"data": {PIPELINE_FILE: text}},
    )
    token: Json = {
        "name": "token",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"audience": TOKEN_AUDIENCE, "expirationSeconds": 7200, "path": "token"}}
            ]
        },
    }
    yield deployment(
        pipeline=needs.name,
        part="starter",
        namespace=settings.namespace,
        account=starter_account(needs),
        container=Container(
            name="starter",
            image=settings.infrastructure.image,
            command=(
                *("python", "-m", "drivetrain.infra.kubeflow.starter"),
                *(f"--pipeline={PIPELINE_FOLDER}/{PIPELINE_FILE}", f"--heartbeat={HEARTBEAT}"),
                f"--every={settings.infrastructure.poll_seconds}",
            ),
            cpu="50m",
            memory="256Mi",
            pull_policy=settings.image_pull_policy,
            environment={**_region(needs), "KF_PIPELINES_SA_TOKEN_PATH": f"{TOKEN_FOLDER}/token"},
            secret_environment=_store_secret(needs),  # what it has seen is kept there
            probe=_heartbeat(settings.infrastructure.poll_seconds),
            mounts={TOKEN_FOLDER: "token", PIPELINE_FOLDER: "pipeline"},
        ),
        volumes=(token, {"name": "pipeline", "configMap": {"name": f"{needs.name}-starter"}}),
        openshift=settings.infrastructure.openshift,
        pull_secret=settings.image_pull_secret,
        # A pod reads it as it starts: another pipeline is another pod.
        annotations={"drivetrain/pipeline-sha256": hashlib.sha256(text.encode()).hexdigest()},
    )


def _heartbeat(poll_seconds: int) -> Probe:
    """Fail if the last poll is older than three intervals and two minutes, which a busy server may take."""
    minutes = math.ceil(3 * poll_seconds / 60) + 2
    command = f'test -n "$(find {HEARTBEAT} -mmin -{minutes})"'
    return Probe(command=("sh", "-c", command), starts_within_seconds=60 * minutes, period_seconds=60)


def _region(needs: Needs) -> dict[str, str]:
    """The variables with the region of the object store: some clients read the one, some the other."""
    region = needs.settings.storage_region
    return {} if region is None else {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}


def _store_secret(needs: Needs) -> dict[str, tuple[str, str]]:
    """The variables with the object store's keys, by reference to the Secret that holds them."""
    secret = needs.settings.s3_secret
    return {} if secret is None else {key: (secret, key) for key in _KEYS}
