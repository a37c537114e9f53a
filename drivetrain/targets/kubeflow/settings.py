"""Where a pipeline lives on Kubeflow: the block `deployment.targets.kubeflow` of its settings.

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

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from drivetrain.base.errors import SpecError
from drivetrain.base.masking import without_secrets
from drivetrain.spec.frozen import Frozen, FrozenDict, FrozenMap
from drivetrain.spec.resources import Deployment

NAME = "kubeflow"
_DNS = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"


class Trainer(Frozen):
    """The ClusterTrainingRuntimes (Kubeflow Trainer v2) that trainings on several nodes use, and how they are
    followed."""

    torch: Annotated[str, Field(pattern=_DNS)] = "torch-distributed"
    """Trainer's own, or `drivetrain-torch`, which `drivetrain infra kubeflow` writes as it does those below."""
    tensorflow: Annotated[str, Field(pattern=_DNS)] = "drivetrain-tensorflow"
    mpi: Annotated[str, Field(pattern=_DNS)] = "drivetrain-mpi"
    start_seconds: Annotated[int, Field(ge=1)] = 3600
    """How long all nodes of a training may take to start, with waiting for room in the cluster."""
    grace_seconds: Annotated[int, Field(ge=1)] = 120
    """How long a pod that is taken away has to save; the launcher stops its processes 90 s after SIGTERM."""
    keep: Annotated[str, Field(pattern=r"^(never|failed|always)$")] = "never"
    """Whether a TrainJob stays in the cluster after its end, for who wants to look at it: never, failed, always."""


class Infrastructure(Frozen):
    """What `drivetrain infra kubeflow` writes beside what the other settings say (docs/kubeflow_infrastructure.md)."""

    platform_namespace: Annotated[str, Field(pattern=_DNS)] = "kubeflow"
    """In which Kubeflow itself is installed. It is left as it is, and pods may reach its services."""
    namespace: Literal["make", "existing"] = "make"
    """Whether `namespace` is made; that of a profile is there already."""
    image: Annotated[str, Field(min_length=1, max_length=512)] = "drivetrain-services:latest"
    """The container image of TensorBoard and of the starter of registry events."""
    poll_seconds: Annotated[int, Field(ge=5, le=86_400)] = 60
    """How long the starter waits before it asks the model registry again."""
    checkpoint_gib: Annotated[int, Field(ge=1)] = 100
    """The size of `checkpoint_claim`, in GiB."""
    checkpoint_class: Annotated[str, Field(pattern=_DNS)] | None = None
    """The storage class of `checkpoint_claim`, one that many nodes can mount; the cluster's default unless given."""


_SECRET_KEY = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[-._a-zA-Z0-9]{1,253}$"
SecretKey = Annotated[str, Field(pattern=_SECRET_KEY)]
"""`SECRET/KEY`: an entry of a Secret in the namespace. Its value is in no file of the pipeline's."""
_Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_Folder = Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._-]+)+$")]
_Claim = Annotated[str, Field(pattern=_DNS)]


class Pod(Frozen):
    """What pods get beside what the pipeline says."""

    secrets: Annotated[dict[_Variable, SecretKey], AfterValidator(FrozenDict)] = Field(default_factory=FrozenDict[str])
    """Environment variable -> `SECRET/KEY` that is its value."""
    volumes: Annotated[dict[_Folder, _Claim], AfterValidator(FrozenDict)] = Field(default_factory=FrozenDict[str])
    """Folder in the container -> PersistentVolumeClaim that is mounted there."""


class Settings(Frozen):
    """Where a pipeline lives on Kubeflow. The defaults are good for this machine only."""

    endpoint: Annotated[str, Field(pattern=r"^(https?://[^\s/@?#]+(/[^\s@?#]*)?)?$")] = ""
    """The address of the Pipelines API: `https://HOST[:PORT][/PATH]`."""
    namespace: Annotated[str, Field(pattern=_DNS)] = "kubeflow"
    """Where the pipeline's pods run; the profile's namespace in a cluster of many users."""
    experiment: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """To which runs belong; one of the pipeline's name unless given."""
    root: Annotated[str, Field(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_/-]*[A-Za-z0-9])?$")] = (
        "s3://drivetrain-local/pipelines"
    )
    """The URI below which code, data, checkpoints and what runs write are kept."""
    s3_endpoint: Annotated[str, Field(pattern=r"^https?://[^\s@?#]+$")] | None = None
    """The address of S3-compatible storage (MinIO, SeaweedFS), as pods reach it; AWS unless given."""
    s3_secret: Annotated[str, Field(pattern=_DNS)] | None = None
    """A Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; the service account's own rights unless given."""
    image: Annotated[str, Field(min_length=1, max_length=512)] = "drivetrain-cpu:latest"
    """The container image of every step that names none (infra/kubeflow has Dockerfiles)."""
    image_pull_policy: Annotated[str, Field(pattern=r"^(Always|IfNotPresent|Never)$")] | None = None
    """When nodes pull an image; IfNotPresent, or Always for the tag latest, unless given."""
    image_pull_secret: Annotated[str, Field(pattern=_DNS)] | None = None
    """A Secret with which nodes pull images."""
    service_account: Annotated[str, Field(pattern=_DNS)] | None = None
    """Under which pods run; the installation's default unless given."""
    token_file: str | None = None
    """A file on the machine that deploys, with the bearer token for the Pipelines API; also $KF_PIPELINES_TOKEN."""
    checkpoint_claim: Annotated[str, Field(pattern=_DNS)] | None = None
    """A PersistentVolumeClaim for checkpoints; below `root` unless given."""
    registry: Annotated[str, Field(pattern=r"^[a-z]+:\S+$")] | None = None
    """The model registry that steps ask, such as `kubeflow:http://model-registry-service.kubeflow:8080`."""
    trainer: Trainer = Trainer()
    """For trainings on several nodes."""
    infrastructure: Infrastructure = Infrastructure()
    """What is written for an administrator to apply."""
    node_selector: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Labels of the nodes on which pods run."""
    pods: Pod = Pod()
    """What the pod of every step gets."""
    steps: FrozenMap[Pod] = Field(default_factory=FrozenDict)
    """Name of a step -> what its pod gets besides."""
    notices: SecretKey | None = None
    """Where the URL is to which a notice is posted when a run has ended, however it ended; none unless given."""
    spot_tolerations: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Key -> value of the taints of spot nodes, which trainings with Spot tolerate; an empty value means any."""
    spot_node_selector: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Labels of spot nodes."""


_NAMES_OF_SECRETS = ("pods", "steps", "notices", "s3_secret", "image_pull_secret")
"""Fields in which somebody may put a secret in place of its name."""


def _may_be_secret(error: Any) -> bool:
    """Whether what was given must not be shown."""
    text = str(error["input"])
    return str(error["loc"][0]) in _NAMES_OF_SECRETS or "@" in text or without_secrets(text) != text


def settings_of(deployment: Deployment) -> Settings:
    """The block of a deployment.

    Raises:
        SpecError: an unknown or wrong field, by its name.
    """
    given: dict[str, Any] = dict(deployment.targets.get(NAME, {}))
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, ("deployment", "targets", NAME, *first["loc"])))
        value = (
            "" if first["type"] == "extra_forbidden" or _may_be_secret(first) else f" Given: {first['input']!r:.120}."
        )
        allowed = f" Allowed: {', '.join(Settings.model_fields)}." if first["type"] == "extra_forbidden" else ""
        raise SpecError(f"{where}: {first['msg']}.{value}{allowed}") from None
