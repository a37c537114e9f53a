"""Containers and Deployments under the Pod Security Standard "restricted", with nothing that a caller could leave out.

https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drivetrain.infra.kubeflow.needs import Needs
from drivetrain.infra.kubeflow.objects import Json, labels_of, name_of, part_object
from drivetrain.targets.kubeflow.compile.mounts import region_variables, secret_environment, store_keys

# The user of our images (images/); a number, since the kubelet can tell of a name only as root that it is not root.
USER = 1000
TMP = "/tmp"
NO_SIDECAR = "sidecar.istio.io/inject"


def probes(check: Json, *, starts_within_seconds: int = 60, period_seconds: int = 20) -> Json:
    """How the kubelet sees that a container works.

    Args:
        check: an `httpGet` or an `exec`.
        starts_within_seconds: for so long at the start only readiness counts.
    """
    ready = {**check, "failureThreshold": 3, "periodSeconds": period_seconds, "timeoutSeconds": 10}
    return {"readinessProbe": ready, "livenessProbe": {**ready, "initialDelaySeconds": starts_within_seconds}}


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
    needs: Needs,
    part: str,
    container: Json,
    *,
    cpu: str,
    memory: str,
    environment: Mapping[str, str],
    volumes: Sequence[Json] = (),
    mounts: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """A Deployment of one pod for a part of the pipeline, which reads the object store.

    One pod, and never two at once: the old one ends before the new one starts.

    Args:
        container: its fields beside those that both parts have alike: command, probes, ports.
        cpu, memory: requests; memory is the limit, too.
        environment: variables beside those of the object store.
        volumes: those of the pod beside /tmp.
        mounts: path -> name of a volume, which is read-only.
        annotations: of the pod.
    """
    settings, labels = needs.settings, labels_of(needs.name, part)
    variables = {**region_variables(settings), **environment}
    plain = [{"name": name, "value": value} for name, value in sorted(variables.items())]
    built: Json = {
        "name": part,
        "image": settings.infrastructure.image,
        "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}},
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "tmp", "mountPath": TMP},
            *({"name": volume, "mountPath": path, "readOnly": True} for path, volume in (mounts or {}).items()),
        ],
        **container,
    }
    if given := plain + secret_environment(store_keys(settings)):
        built["env"] = given
    if settings.image_pull_policy is not None:
        built["imagePullPolicy"] = settings.image_pull_policy
    # Of no service mesh: the policy of the pod's traffic would not let its sidecar reach the mesh.
    metadata: Json = {"labels": {**labels, NO_SIDECAR: "false"}}
    if annotations:
        metadata["annotations"] = dict(annotations)
    pod: Json = {
        "automountServiceAccountToken": False,
        "containers": [built],
        "enableServiceLinks": False,
        "securityContext": pod_security(openshift=settings.infrastructure.openshift),
        "serviceAccountName": name_of(needs, part),
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}, *volumes],
    }
    if settings.image_pull_secret is not None:
        pod["imagePullSecrets"] = [{"name": settings.image_pull_secret}]
    spec: Json = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "strategy": {"type": "Recreate"},
        "template": {"metadata": metadata, "spec": pod},
    }
    return part_object(needs, part, "apps/v1", "Deployment", {"spec": spec})
