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

from typing import Annotated, Any

from pydantic import Field, ValidationError

from drivetrain.base.errors import SpecError
from drivetrain.spec.frozen import Frozen, FrozenDict, FrozenMap
from drivetrain.spec.resources import Deployment

NAME = "kubeflow"
_DNS = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"


class Trainer(Frozen):
    """The ClusterTrainingRuntimes (Kubeflow Trainer v2) that trainings on several nodes use, and how they are
    followed."""

    torch: Annotated[str, Field(pattern=_DNS)] = "torch-distributed"
    start_seconds: Annotated[int, Field(ge=1)] = 3600
    """How long all nodes of a training may take to start, with waiting for room in the cluster."""
    grace_seconds: Annotated[int, Field(ge=1)] = 120
    """How long a pod that is taken away has to save; the launcher stops its processes 90 s after SIGTERM."""
    keep: Annotated[str, Field(pattern=r"^(never|failed|always)$")] = "never"
    """Whether a TrainJob stays in the cluster after its end, for who wants to look at it: never, failed, always."""


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
    node_selector: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Labels of the nodes on which pods run."""
    spot_tolerations: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Key -> value of the taints of spot nodes, which trainings with Spot tolerate; an empty value means any."""
    spot_node_selector: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Labels of spot nodes."""


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
        value = "" if first["type"] == "extra_forbidden" else f" Given: {first['input']!r:.120}."
        allowed = f" Allowed: {', '.join(Settings.model_fields)}." if first["type"] == "extra_forbidden" else ""
        raise SpecError(f"{where}: {first['msg']}.{value}{allowed}") from None
