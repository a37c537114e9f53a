"""Settings of a pipeline's place on SageMaker: the block `deployment.targets.sagemaker`.

deployment:
  targets:
    sagemaker:
      bucket: acme-models
      role: arn:aws:iam::123456789012:role/drivetrain
      region: eu-central-1
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from drivetrain.spec import Frozen, FrozenDict, FrozenMap, Matching
from drivetrain.spec.deployment import Deployment, block_of
from drivetrain.spec.resources import Mlflow, Network

NAME = "sagemaker"
_Key = Annotated[
    str, Matching(r"[a-zA-Z0-9:/_-]{1,2048}", "the id, the ARN or the alias of a KMS key, such as alias/models")
]


class Keys(Frozen):
    """KMS keys, each an id, an ARN or an alias; the account's keys for SageMaker and S3 unless given."""

    volume: _Key | None = None
    """The key of the machines' volumes. Disks that machines have of their own are encrypted by a key in their
    hardware, and the service takes no other."""
    output: _Key | None = None
    """The key of what jobs write to S3."""


class Roles(Frozen):
    """IAM roles of jobs, per kind or step, so that each role has only the permissions that it needs
    (docs/infrastructure.md)."""

    processing: str | None = None
    """ARN, of processing jobs."""
    training: str | None = None
    """ARN, of training and tuning jobs."""
    registry: str | None = None
    """The role of the processing jobs that ask the model registry, such as `compare`."""
    steps: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Name of a step -> ARN: of that step's job, whatever its kind."""


class Settings(Frozen):
    """Settings of a pipeline's place on SageMaker. The defaults are good for this machine only."""

    bucket: Annotated[
        str,
        Matching(
            r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "3 to 63 lower-case letters, digits, '.' and '-', such as acme-models"
        ),
    ] = "drivetrain-local"
    """For code, data, records, and what executions write."""
    prefix: Annotated[
        str,
        Matching(
            r"[A-Za-z0-9]((/?[A-Za-z0-9_-])*/?[A-Za-z0-9])?",
            "letters, digits, '-', '_' and single '/' between them, such as vision/pipelines",
        ),
    ] = "pipelines"
    """The prefix of every key in the bucket."""
    role: str = "arn:aws:iam::000000000000:role/drivetrain-local"
    """The pipeline's own role, and that of every job for whose kind `roles` names none."""
    roles: Roles = Roles()
    """The roles of the jobs, one a kind."""
    region: Annotated[str, Matching(r"[a-z]{2}(-[a-z]+)+-[0-9]", "a region of AWS, such as eu-central-1")] = "us-east-1"
    """The region of pipeline, jobs and bucket."""
    image: str | None = None
    """The container image of every job whose step names none; by default the stock deep-learning image."""
    serving_image: str | None = None
    """The container image that serves registered models; by default the stock inference image."""
    wheels: str | None = None
    """A folder of wheels for what the image lacks."""
    tags: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Tags of the pipeline and its jobs."""
    scheduler_role: str | None = None
    """ARN of the role with which EventBridge Scheduler starts the pipeline; for schedules."""
    event_queue: str | None = None
    """ARN of the SQS queue from which the starter Lambda reads; for triggers by events."""
    dead_letter_queue: str | None = None
    """ARN of the SQS queue for what could not be delivered."""
    network: Network = Network()
    """The network of every job whose cluster says nothing else."""
    keys: Keys = Keys()
    """The keys of every job."""
    experiment: (
        Annotated[
            str,
            Matching(
                r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,119}",
                "at most 120 letters, digits and '-', which neither begins nor ends it, such as retraining",
            ),
        ]
        | None
    ) = None
    """SageMaker Experiment that executions are trials of; one of the pipeline's name unless given."""
    mlflow: Mlflow = Mlflow()
    """The MLflow server that tracks executions of the pipeline."""

    @property
    def root(self) -> str:
        """The URI below which everything of the pipelines is kept, without a final slash."""
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def evidence(self) -> str:
        """The URI of the folder for what comparisons of models have shown (drivetrain/registry/evidence.py)."""
        return f"{self.root}/drivetrain-evidence"


def settings_of(deployment: Deployment) -> Settings:
    """The block of a deployment.

    Raises:
        SpecError: an unknown or wrong field, by its name.
    """
    return block_of(deployment, NAME, Settings)
