"""Containers and Deployments under the Pod Security Standard "restricted", with nothing that a caller could leave out.

https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drivetrain.infra.kubeflow.objects import Json, Object, labels_of

# The user of our images (images/); a number, since the kubelet can tell of a name only as root that it is not root.
USER = 1000
TMP = "/tmp"
NO_SIDECAR = "sidecar.istio.io/inject"


@dataclass(frozen=True, kw_only=True)
class Probe:
    """How the kubelet sees that a container works: a path that answers, or a command that ends with 0."""

    http_path: str | None = None
    command: tuple[str, ...] = ()
    starts_within_seconds: int = 60
    """For so long at the start only readiness counts."""
    period_seconds: int = 20

    def to_dict(self) -> Json:
        check: Json = (
            {"httpGet": {"path": self.http_path, "port": "http"}}
            if self.http_path is not None
            else {"exec": {"command": list(self.command)}}
        )
        return {**check, "failureThreshold": 3, "periodSeconds": self.period_seconds, "timeoutSeconds": 10}

    def liveness(self) -> Json:
        """The same, for what is to be started again when it fails."""
        return {**self.to_dict(), "initialDelaySeconds": self.starts_within_seconds}


@dataclass(frozen=True, kw_only=True)
class Container:
    """One container, of the pod's first port `http`.

    `secret_environment` maps a variable to (Secret, key): the value stays where it is. `cpu` and `memory` are requests;
    memory is the limit, too.
    """

    name: str
    image: str
    command: tuple[str, ...]
    cpu: str
    memory: str
    pull_policy: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    secret_environment: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    port: int | None = None
    probe: Probe | None = None
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Path -> name of the pod's volume, read-only."""

    def to_dict(self) -> Json:
        plain = [{"name": name, "value": value} for name, value in sorted(self.environment.items())]
        secret = [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": of, "key": key}}}
            for name, (of, key) in sorted(self.secret_environment.items())
        ]
        built: Json = {
            "name": self.name,
            "image": self.image,
            "command": list(self.command),
            "resources": {"requests": {"cpu": self.cpu, "memory": self.memory}, "limits": {"memory": self.memory}},
            "securityContext": container_security(),
            "volumeMounts": [
                {"name": "tmp", "mountPath": TMP},
                *({"name": volume, "mountPath": path, "readOnly": True} for path, volume in self.mounts.items()),
            ],
        }
        if plain or secret:
            built["env"] = plain + secret
        if self.pull_policy is not None:
            built["imagePullPolicy"] = self.pull_policy
        if self.port is not None:
            built["ports"] = [{"name": "http", "containerPort": self.port, "protocol": "TCP"}]
        if self.probe is not None:
            built |= {"livenessProbe": self.probe.liveness(), "readinessProbe": self.probe.to_dict()}
        return built


def container_security(*, read_only_root: bool = True) -> Json:
    """Settings that "restricted" asks of a container; a training writes beside its code, on a writable root."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": read_only_root,
    }


def pod_security(*, openshift: bool) -> Json:
    """The security that "restricted" asks of a pod. Volumes are the group's, so that the user can write to them.

    OpenShift's restricted-v2 refuses a user or group of ours: it fills in those of the namespace.
    """
    ids = {} if openshift else {"fsGroup": USER, "runAsGroup": USER, "runAsUser": USER}
    return {
        **ids,
        "fsGroupChangePolicy": "OnRootMismatch",  # else each start goes through all checkpoints
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def deployment(
    *,
    pipeline: str,
    part: str,
    namespace: str,
    account: str,
    container: Container,
    openshift: bool,
    volumes: tuple[Mapping[str, Any], ...] = (),
    pull_secret: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """A Deployment of one pod, named `PIPELINE-PART`, whose pods have the labels of that part.

    One pod, and never two at once: the old one ends before the new one starts.
    """
    labels = labels_of(pipeline, part)
    # Of no service mesh: the policy of the pod's traffic would not let its sidecar reach the mesh.
    metadata: Json = {"labels": {**labels, NO_SIDECAR: "false"}}
    pod: Json = {
        "automountServiceAccountToken": False,
        "containers": [container.to_dict()],
        "enableServiceLinks": False,
        "securityContext": pod_security(openshift=openshift),
        "serviceAccountName": account,
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}, *map(dict, volumes)],
    }
    if pull_secret is not None:
        pod["imagePullSecrets"] = [{"name": pull_secret}]
    if annotations:
        metadata["annotations"] = dict(annotations)
    return Object(
        api="apps/v1",
        kind="Deployment",
        name=f"{pipeline}-{part}",
        namespace=namespace,
        labels=labels,
        fields={
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "strategy": {"type": "Recreate"},
                "template": {"metadata": metadata, "spec": pod},
            }
        },
    )
