"""The namespace, and the volume on which checkpoints are kept."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.infra.kubeflow.needs import Needs
from drivetrain.infra.kubeflow.objects import PART_OF_LABEL, Json, kubernetes_object, part_object

_POD_SECURITY = "pod-security.kubernetes.io"
# In such namespaces a cluster of many users keeps what Pipelines' steps ask for (the ConfigMap `kfp-launcher`, ...).
_PIPELINES = "pipelines.kubeflow.org/enabled"
# Kubeflow's NetworkPolicies let in the pods of such namespaces alone: to the store, the Pipelines API, the registry.
# https://github.com/kubeflow/manifests/tree/master/common/networkpolicies/base
PROFILE = "kubeflow-profile"


def namespace(needs: Needs) -> Iterator[Json]:
    """The namespace, where the settings ask for one that is not Kubeflow's own; it is labelled as a profile's is.

    All that we make keeps the standard "restricted". The pods of Pipelines' own steps say nothing of the user that
    their main container runs as (https://github.com/kubeflow/pipelines/pull/12782), so "baseline" is what is enforced,
    and what does not keep "restricted" is warned of and audited.
    """
    infrastructure = needs.settings.infrastructure
    if infrastructure.namespace == "existing" or needs.settings.namespace == infrastructure.platform_namespace:
        return
    labels = {PART_OF_LABEL: PROFILE, f"{_POD_SECURITY}/enforce": "baseline", _PIPELINES: "true"}
    labels |= {f"{_POD_SECURITY}/{mode}": "restricted" for mode in ("audit", "warn")}
    yield kubernetes_object("v1", "Namespace", needs.settings.namespace, labels)


def volumes(needs: Needs) -> Iterator[Json]:
    """The claim for checkpoints, where the settings name one.

    ReadWriteMany: a training that is started again may come to another node, and those of one run may overlap.
    """
    claim, infrastructure = needs.settings.checkpoint_claim, needs.settings.infrastructure
    if claim is None:
        return
    spec: Json = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": f"{infrastructure.checkpoint_gib}Gi"}},
    }
    if infrastructure.checkpoint_class is not None:
        spec["storageClassName"] = infrastructure.checkpoint_class
    yield part_object(needs, "checkpoints", "v1", "PersistentVolumeClaim", {"spec": spec}, name=claim)
