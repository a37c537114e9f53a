"""Settings of a pipeline on Kubeflow: the block `deployment.targets.kubeflow`.

deployment:
  target: kubeflow
  targets:
    kubeflow:
      endpoint: https://kubeflow.example.com/pipeline
      namespace: team-a
      root: s3://models/pipelines
      image: registry.example.com/drivetrain-cpu:1
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from drivetrain.base import addresses
from drivetrain.base.errors import did_you_mean
from drivetrain.spec import Frozen, FrozenDict, FrozenMap, Matching
from drivetrain.spec.deployment import Deployment, block_of
from drivetrain.targets.kubeflow import image_names

NAME, TITLE = "kubeflow", "Kubeflow Pipelines"
BLOCK = f"deployment.targets.{NAME}"


def _address(text: str) -> str:
    if problem := addresses.address_problem(text):
        raise ValueError(f"{problem}. Allowed: {addresses.ALLOWED}")
    return text


def _image(text: str) -> str:
    if problem := image_names.image_problem(text):
        raise ValueError(f"{problem}. Allowed: {image_names.ALLOWED}")
    return text


def _registry(text: str) -> str:
    from drivetrain.registry.registry import kinds  # most pipelines name none

    kind, _, place = text.partition(":")
    if kind not in (known := kinds()):
        raise ValueError(f"there is no kind of registry '{kind}'. {did_you_mean(kind, known)}")
    if kind == "kubeflow":
        _address(place)
    return text


def _ip(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError("give an address by number, such as 169.254.20.10") from None


# Which Trainer sets itself, and refuses of others (recorded of 2.3.0).
RESERVED_VARIABLES = frozenset(
    ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")
)
# Where Argo, Pipelines' launcher, Kubernetes and the Trainer (memory at /dev/shm) mount volumes of their own.
_MOUNTED = re.compile(
    r"/tmp|/(argo|dev|gcs|kfp[^/]*|minio|oci|proc|run|s3|sys|tmp/kfp[^/]*|var/run|\.cache|\.config|\.local)(/.*)?"
)


def _variable(name: str) -> str:
    if name in RESERVED_VARIABLES:
        raise ValueError(f"the Trainer sets {name} itself. Give another name")
    return name


def _folder(path: str) -> str:
    if {".", ".."} & set(path.split("/")):
        raise ValueError(f"{path} leads elsewhere. Give it without '.' and '..'")
    if _MOUNTED.fullmatch(path):
        raise ValueError(f"{path} is the platform's own. Give another folder, such as /data")
    return path


# Clients want a region, and servers beside AWS take any.
_ANY_REGION = "us-east-1"
Name = Annotated[
    str,
    Matching(
        r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        "1 to 63 lower-case letters, digits and '-', which neither begins nor ends it, such as team-a",
    ),
]
"""The name of an object on Kubernetes."""
Address = Annotated[str, AfterValidator(_address)]
Image = Annotated[str, AfterValidator(_image)]
_Ip = Annotated[str, AfterValidator(_ip)]


_Key = Annotated[
    str,
    Matching(
        r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?",
        "[DOMAIN/]NAME; NAME has at most 63 letters, digits, '-', '_' and '.', such as kueue.x-k8s.io/queue-name",
    ),
]
_Labels = Annotated[
    dict[
        _Key,
        Annotated[
            str,
            Matching(
                r"([A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?)?",
                "at most 63 letters, digits, '-', '_' and '.', such as team-a",
            ),
        ],
    ],
    AfterValidator(FrozenDict),
]
_Annotations = Annotated[dict[_Key, str], AfterValidator(FrozenDict)]


class Trainer(Frozen):
    """The ClusterTrainingRuntimes (Kubeflow Trainer v2) that trainings on several nodes use, and how they are
    followed."""

    torch: Name = "torch-distributed"
    """Trainer's own, or `drivetrain-torch`, which `drivetrain infra kubeflow` writes as it does those below."""
    tensorflow: Name = "drivetrain-tensorflow"
    """The runtime of strategies of TensorFlow."""
    mpi: Name = "drivetrain-mpi"
    """The runtime of trainings that mpirun starts (launcher=mpirun)."""
    start_seconds: Annotated[int, Field(ge=1)] = 3600
    """How long all nodes of a training may take to start, with waiting for room in the cluster."""
    grace_seconds: Annotated[int, Field(ge=1)] = 120
    """How long a pod that is taken away has to save; the launcher stops its processes 90 s after SIGTERM."""
    keep: Literal["never", "failed", "always"] = "never"
    """Keep a TrainJob in the cluster after its end, to look at it: never, failed, always."""
    one_node: Literal["pod", "spot", "always"] = "pod"
    """Trainings on one node that run as a TrainJob, too: none (`pod`), those with Spot, or all (`always`). A pod of a
    TrainJob has `grace_seconds` to save; one of Kubeflow Pipelines ends within a second of SIGTERM (docs/spot.md)."""
    labels: _Labels = Field(default_factory=FrozenDict[str])
    """On each TrainJob, such as Kueue's kueue.x-k8s.io/queue-name. Its pods have those of `pods`."""
    annotations: _Annotations = Field(default_factory=FrozenDict[str])
    """On each TrainJob."""


class Dns(Frozen):
    """The pods that find names for others, which all of a pipeline's pods may reach."""

    namespace: Name = "kube-system"
    """The namespace in which they run (OpenShift: openshift-dns)."""
    labels: FrozenMap[str] = Field(default_factory=lambda: FrozenDict({"k8s-app": "kube-dns"}))
    """Labels of the pods; those of CoreDNS and kube-dns unless given."""
    port: Annotated[int, Field(ge=1, le=65_535)] = 53
    """The port of the pods, which may differ from that of the service (OpenShift: 5353)."""
    addresses: tuple[_Ip, ...] = ()
    """Addresses of a resolver that is no pod of the cluster's network, such as NodeLocal DNSCache's 169.254.20.10;
    port 53."""


class Infrastructure(Frozen):
    """Settings for what `drivetrain infra kubeflow` writes, beside the other settings
    (docs/kubeflow_infrastructure.md)."""

    platform_namespace: Name = "kubeflow"
    """The namespace in which Kubeflow itself is installed. It is left as it is, and pods may reach its services."""
    namespace: Literal["make", "existing"] = "existing"
    """`make` writes the namespace. A profile's is there already, and `existing` leaves it as it is."""
    openshift: bool = False
    """True for a cluster that gives each namespace its own user ids, as OpenShift does: no file names an id then."""
    image: Image = "drivetrain-services:latest"
    """The container image of TensorBoard and of the starter of registry events."""
    dns: Dns = Dns()
    """The resolver of names: a cluster's usual DNS unless given."""
    steps_reach: Literal["anywhere", "named"] = "anywhere"
    """Destinations that the pods of steps may reach. `named`: DNS, the storage, the registry, Kubeflow's own services,
    the API of Kubernetes at `kubernetes_api`, and `also`. It holds for the steps of every pipeline in the namespace."""
    kubernetes_api: Address | None = None
    """The address behind the service `kubernetes` (kubectl get endpoints kubernetes), which each step's pod calls."""
    also: tuple[Address, ...] = ()
    """Further addresses that steps and trainings may reach, such as that of a hub of models."""
    poll_seconds: Annotated[int, Field(ge=5, le=86_400)] = 60
    """How long the starter waits before it asks the model registry again."""
    checkpoint_gib: Annotated[int, Field(ge=1)] = 100
    """The size of `checkpoint_claim`, in GiB."""
    checkpoint_class: Name | None = None
    """The storage class of `checkpoint_claim`, one that many nodes can mount; the cluster's default unless given."""


SecretKey = Annotated[
    str,
    Matching(
        r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[-._a-zA-Z0-9]{1,253}",
        "SECRET/KEY, the names of a Secret and of an entry in it, such as tokens/hub",
    ),
]
"""`SECRET/KEY`: an entry of a Secret in the namespace. Its value is in no file of the pipeline's."""
_Variable = Annotated[
    str,
    Matching(r"[A-Za-z_][A-Za-z0-9_]*", "letters, digits and '_', which does not begin with a digit, such as HF_TOKEN"),
    AfterValidator(_variable),
]
_Folder = Annotated[
    str,
    Matching(r"(/[A-Za-z0-9._-]+)+", "an absolute path of letters, digits, '.', '_' and '-', such as /data/corpus"),
    AfterValidator(_folder),
]


class Pod(Frozen):
    """Settings of pods, beside what the pipeline says."""

    secrets: Annotated[dict[_Variable, SecretKey], AfterValidator(FrozenDict)] = Field(default_factory=FrozenDict[str])
    """Environment variable -> `SECRET/KEY` that is its value."""
    volumes: Annotated[dict[_Folder, Name], AfterValidator(FrozenDict)] = Field(default_factory=FrozenDict[str])
    """Folder in the container -> PersistentVolumeClaim that is mounted there."""
    cpu: Annotated[float, Field(gt=0)] | None = None
    """Cores that it asks for. Of a step in place of what the pipeline says; in `pods` of steps that say nothing or the
    default instance type, and train nothing: 1 unless given."""
    memory_gib: Annotated[float, Field(gt=0)] | None = None
    """The same of memory, in GiB: 2 unless given."""
    labels: _Labels = Field(default_factory=FrozenDict[str])
    """Labels of the pod, such as sidecar.istio.io/inject: "false"."""
    annotations: _Annotations = Field(default_factory=FrozenDict[str])
    """Annotations of the pod."""


class Settings(Frozen):
    """Settings of a pipeline on Kubeflow. The defaults are good for this machine only."""

    NAMES_OF_SECRETS: ClassVar[tuple[str, ...]] = ("pods", "steps", "notices", "s3_secret", "image_pull_secret")
    """Fields where a user may put a secret by mistake instead of its name."""

    endpoint: Annotated[str, AfterValidator(lambda text: text and _address(text))] = ""
    """The address of the Pipelines API: `https://HOST[:PORT][/PATH]`."""
    namespace: Name = "kubeflow"
    """The namespace of the pipeline's pods; the profile's in a cluster of many users."""
    experiment: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """The experiment to which runs belong; one of the pipeline's name unless given."""
    root: Annotated[
        str,
        Matching(
            r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_/-]*[A-Za-z0-9])?",
            "s3://BUCKET/FOLDER of letters, digits, '-', '_' and '/', without a '/' at the end, such as "
            "s3://models/pipelines (of MinIO and SeaweedFS, too, with s3_endpoint; gs:// and minio:// are not taken)",
        ),
    ] = "s3://drivetrain-local/pipelines"
    """The URI below which code, data, checkpoints and what runs write are kept."""
    region: Name | None = None
    """The region of `root`'s bucket, such as eu-central-1; with `s3_endpoint` us-east-1 unless given."""
    s3_endpoint: Address | None = None
    """The address of S3-compatible storage (MinIO, SeaweedFS), as pods reach it; AWS unless given."""
    s3_secret: Name | None = None
    """A Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; the service account's own rights unless given."""
    image: Image = "drivetrain-cpu:latest"
    """The container image of every step that names none (infra/kubeflow has Dockerfiles)."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When nodes pull an image; IfNotPresent, or Always for the tag latest, unless given."""
    image_pull_secret: Name | None = None
    """A Secret with which nodes pull images."""
    service_account: Name | None = None
    """The service account under which pods run; the installation's default unless given."""
    token_file: str | None = None
    """A file on the machine that deploys, with the bearer token for the Pipelines API; also $KF_PIPELINES_TOKEN."""
    checkpoint_claim: Name | None = None
    """A PersistentVolumeClaim for checkpoints; below `root` unless given."""
    registry: (
        Annotated[
            str,
            Matching(
                r"[a-z]+:\S+",
                "a kind and a place, such as kubeflow:http://model-registry-service.kubeflow:8080 or local:/models",
            ),
            AfterValidator(_registry),
        ]
        | None
    ) = None
    """The model registry that steps ask, such as `kubeflow:http://model-registry-service.kubeflow:8080`."""
    trainer: Trainer = Trainer()
    """For trainings on several nodes."""
    infrastructure: Infrastructure = Infrastructure()
    """Manifests for an administrator to apply."""
    node_selector: _Labels = Field(default_factory=FrozenDict[str])
    """Labels of the nodes on which pods run."""
    pods: Pod = Pod()
    """Options of the pod of every step."""
    steps: FrozenMap[Pod] = Field(default_factory=FrozenDict)
    """Name of a step -> what its pod gets besides."""
    notices: SecretKey | None = None
    """The secret with the URL to which a notice is posted when a run has ended, however it ended; none unless given."""
    spot_tolerations: _Labels = Field(default_factory=FrozenDict[str])
    """Key -> value of the taints of spot nodes, which trainings with Spot tolerate; an empty value means any."""
    spot_node_selector: _Labels = Field(default_factory=FrozenDict[str])
    """Labels of spot nodes."""

    @property
    def where(self) -> str:
        """The place in words."""
        return f"namespace {self.namespace} at {self.endpoint}"

    @property
    def storage_region(self) -> str | None:
        """The region with which storage is asked; None where only the platform's own settings say one."""
        return self.region or (_ANY_REGION if self.s3_endpoint else None)


def settings_of(deployment: Deployment) -> Settings:
    """The block of a deployment.

    Raises:
        SpecError: an unknown or wrong field, by its name.
    """
    return block_of(deployment, NAME, Settings)
