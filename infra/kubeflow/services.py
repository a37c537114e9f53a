"""Services beside a pipeline: TensorBoard on its runs, and the starter, which polls the model registry."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

from drivetrain.infra.kubeflow.needs import Needs
from drivetrain.infra.kubeflow.objects import Json, labels_of, name_of, part_object
from drivetrain.infra.kubeflow.pods import TMP, deployment, probes
from drivetrain.infra.kubeflow.starter import pipeline_text

PORT = 6006
# A token for the Pipelines API: https://www.kubeflow.org/docs/components/pipelines/user-guides/core-functions/connect-api/
TOKEN_FOLDER, TOKEN_AUDIENCE = "/var/run/secrets/kubeflow/pipelines", "pipelines.kubeflow.org"
PIPELINE_FOLDER, PIPELINE_FILE = "/etc/drivetrain/pipeline", "pipeline.json"
# The starter touches it after each look.
HEARTBEAT = f"{TMP}/polled"


def tensorboard(needs: Needs) -> Iterator[Json]:
    """TensorBoard and its Service, for a pipeline with a training of ours."""
    if not needs.trains:
        return
    endpoint = needs.settings.s3_endpoint
    container: Json = {
        "command": [
            *("python", "-m", "tensorboard.main", "--bind_all", f"--port={PORT}"),
            *(f"--logdir={needs.root}", "--load_fast=false", "--reload_interval=300"),
        ],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        **probes({"httpGet": {"path": "/", "port": "http"}}),
    }
    # As TensorBoard calls it where there is no TensorFlow.
    environment = {} if endpoint is None else {"S3_ENDPOINT": endpoint}
    yield deployment(needs, "tensorboard", container, cpu="100m", memory="1Gi", environment=environment)
    selector = labels_of(needs.name, "tensorboard")
    spec: Json = {"ports": [{"name": "http", "port": 80, "targetPort": "http"}], "selector": selector}
    # Its name must not begin with a digit, as a pipeline's may.
    yield part_object(needs, "tensorboard", "v1", "Service", {"spec": spec}, name=f"tensorboard-{needs.name}")


def starter(needs: Needs) -> Iterator[Json]:
    """The starter of registry events, and what it is told of the pipeline, for one that has such triggers."""
    if not needs.events:
        return
    poll_seconds = needs.settings.infrastructure.poll_seconds
    text = pipeline_text(needs.pipeline)
    yield part_object(needs, "starter", "v1", "ConfigMap", {"data": {PIPELINE_FILE: text}})
    token = {"audience": TOKEN_AUDIENCE, "expirationSeconds": 7200, "path": "token"}
    container: Json = {
        "command": [
            *("python", "-m", "drivetrain.infra.kubeflow.starter"),
            *(f"--pipeline={PIPELINE_FOLDER}/{PIPELINE_FILE}", f"--heartbeat={HEARTBEAT}", f"--every={poll_seconds}"),
        ],
        **_heartbeat(poll_seconds),
    }
    yield deployment(
        needs,
        "starter",
        container,
        cpu="50m",
        memory="256Mi",
        environment={"KF_PIPELINES_SA_TOKEN_PATH": f"{TOKEN_FOLDER}/token"},
        volumes=(
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": token}]}},
            {"name": "pipeline", "configMap": {"name": name_of(needs, "starter")}},
        ),
        mounts={TOKEN_FOLDER: "token", PIPELINE_FOLDER: "pipeline"},
        # A pod reads it as it starts: another pipeline is another pod.
        annotations={"drivetrain/pipeline-sha256": hashlib.sha256(text.encode()).hexdigest()},
    )


def _heartbeat(poll_seconds: int) -> Json:
    """Fail if the last poll is older than three intervals and two minutes, which a busy server may take."""
    minutes = math.ceil(3 * poll_seconds / 60) + 2
    command = ["sh", "-c", f'test -n "$(find {HEARTBEAT} -mmin -{minutes})"']
    return probes({"exec": {"command": command}}, starts_within_seconds=60 * minutes, period_seconds=60)
