"""ClusterTrainingRuntimes (Kubeflow Trainer v2): what the pods of a training on several nodes are made from.

A TrainJob names one of them and says image, command, number of nodes and resources itself. So these are the same for
every pipeline, and the folders of two pipelines do not change each other's.

Trainer ships a runtime for torch, and none for TensorFlow or for MPI jobs that start by an ssh server in each pod. All
three of ours have Trainer's policy for torch, whatever the framework: it tells each pod the number of nodes, its own,
and the name of the first (PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR, ...), from which Drivetrain's launcher makes
TF_CONFIG, the hosts of mpirun, or torchrun's rendezvous (docs/launcher.md). Trainer's policy for MPI would start our
command in the first pod alone, and the code would be missing in the others.

https://github.com/kubeflow/trainer/tree/master/manifests/base/runtimes has Trainer's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.infra.kubeflow.needs import SSH_SECRET, Needs, own_runtimes
from drivetrain.infra.kubeflow.network import TRAINING_LABELS
from drivetrain.infra.kubeflow.objects import PART_OF, PART_OF_LABEL, Json, kubernetes_object
from drivetrain.infra.kubeflow.pods import NO_SIDECAR, container_security, pod_security
from drivetrain.targets.kubeflow.compile.train_job import Framework
from drivetrain.targets.kubeflow.settings import Settings

# From SIGTERM to SIGKILL. The launcher gives its processes 90 s to save (docs/launcher.md), and needs some itself.
GRACE_SECONDS = 120
# Where ssh and sshd of images/mpi.Dockerfile look for keys: entry of the Secret -> file.
SSH_FOLDER = "/etc/drivetrain/ssh"
SSH_FILES = {"ssh-privatekey": "id", "ssh-publickey": "authorized_keys"}
_LABEL = "trainer.kubeflow.org"
# Of pods that are started before a TrainJob says which; the images of images/ under the settings' own default.
_IMAGE: str = Settings.model_fields["image"].default


def runtimes(needs: Needs) -> Iterator[Json]:
    """Those that the pipeline's trainings use and that Trainer does not ship."""
    for name, framework in own_runtimes(needs).items():
        yield _runtime(name, framework, openshift=needs.settings.infrastructure.openshift)


def _runtime(name: str, framework: Framework, *, openshift: bool) -> Json:
    job: Json = {
        "name": "node",
        "template": {
            "metadata": {"labels": {f"{_LABEL}/trainjob-ancestor-step": "trainer"}},
            "spec": {
                # A pod alone is never started again: the others have lost it. The TrainJob fails, and its step makes
                # another one, which goes on from the last checkpoint, where that may help.
                "backoffLimit": 0,
                "template": {
                    "metadata": {"labels": {**TRAINING_LABELS, NO_SIDECAR: "false"}},
                    "spec": _pod(framework, openshift=openshift),
                },
            },
        },
    }
    spec: Json = {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {
            "spec": {
                # The first host's name must be known before it is ready: the others look for it.
                "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
                "replicatedJobs": [job],
            }
        },
    }
    labels = {PART_OF_LABEL: PART_OF, f"{_LABEL}/framework": framework}
    return kubernetes_object(f"{_LABEL}/v1alpha1", "ClusterTrainingRuntime", name, labels, {"spec": spec})


def _pod(framework: Framework, *, openshift: bool) -> Json:
    """The pods of a training. They call no API, so that they get no token."""
    volumes: list[Json] = [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}]
    # Of readers' processes: the container runtime's own has 64 MiB.
    mounts: list[Json] = [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    if framework == "mpi":
        source: Json = {
            "secretName": SSH_SECRET,
            "defaultMode": 0o440,
            "items": [{"key": key, "path": path} for key, path in SSH_FILES.items()],
        }
        volumes.append({"name": "ssh", "secret": source})
        mounts.append({"name": "ssh", "mountPath": SSH_FOLDER, "readOnly": True})
    container: Json = {
        "name": "node",
        "image": _IMAGE,
        "command": ["sh", "-c", "echo 'This runtime is for TrainJobs that bring a command.' >&2; exit 2"],
        "securityContext": container_security(read_only_root=False),
        "volumeMounts": mounts,
    }
    return {
        "automountServiceAccountToken": False,
        "containers": [container],
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": pod_security(openshift=openshift),
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "volumes": volumes,
    }
