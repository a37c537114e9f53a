"""Names and ARNs of all that surrounds a deployed pipeline, so that code, stack and policies mean the same things."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.spec.model_groups import model_group
from drivetrain.targets.sagemaker.settings import settings_of
from drivetrain.triggers.resource_names import name_prefix

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Pipeline

PREFIX = "drivetrain"
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html; Lambda allows as many.
MAX_ROLE_NAME = 64
# Jobs that a pipeline starts: `pipelines-<execution id>-<step>-<random>`, in ARNs in lower case.
JOB_PREFIX = "pipelines-"

_ROLE = re.compile(r"arn:(aws[a-z-]*):iam::(\d{12}):role/([\w+=,.@/-]+)")
_HASH = 8
_GIVEN = ("scheduler_role", "event_queue", "dead_letter_queue")


@dataclass(frozen=True, kw_only=True)
class Names:
    """The location of a pipeline, and the names of the resources around it."""

    partition: str
    region: str
    account: str
    pipeline: str
    bucket: str
    prefix: str
    """The prefix of keys in the bucket, without slashes at its ends."""
    pipeline_role: str
    """ARN of the pipeline's own role."""
    bucket_key: str | None = None
    """ARN of the KMS key that the bucket encrypts with; None without one of the account's own."""
    given: Mapping[str, str] = field(default_factory=dict[str, str])
    """ARNs that the deployment names itself: of the scheduler's role, the event queue, the dead-letter queue."""

    @staticmethod
    def of(pipeline: Pipeline, bucket_key: str | None = None) -> Names:
        """The names of a pipeline, by its deployment.

        Raises:
            UserError: the role is no ARN of an IAM role, which says in which account the pipeline lives.
        """
        place = settings_of(pipeline.deployment)
        partition, account = role_account(place.role)
        return Names(
            partition=partition,
            region=place.region,
            account=account,
            pipeline=pipeline.name,
            bucket=place.bucket,
            prefix=place.prefix,
            pipeline_role=place.role,
            bucket_key=bucket_key,
            given={name: arn for name in _GIVEN if (arn := getattr(place, name)) is not None},
        )

    def arn(self, service: str, resource: str) -> str:
        """The ARN of something of this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def sagemaker(self, resource: str) -> str:
        return self.arn("sagemaker", resource)

    def spellings(self, resource: str) -> tuple[str, ...]:
        """The ARN of something of SageMaker's, also in lower case, in which the service writes the names of some.

        IAM compares with regard to case, and events show both (`pipeline/myPipeline-123`, but
        `processing-job/pipelines-p4jn9xou8a8s-myprocessingstep1-tmgxry49ug`).
        """
        return tuple(dict.fromkeys((self.sagemaker(resource), self.sagemaker(resource.lower()))))

    def group(self, group: str) -> tuple[str, ...]:
        """The ARN of a model package group, in its `spellings`; of another account's where its own ARN is given."""
        return self._home(group).spellings(f"model-package-group/{model_group(group).name}")

    def versions(self, group: str) -> tuple[str, ...]:
        """The ARNs of the versions in a model package group."""
        return self._home(group).spellings(f"model-package/{model_group(group).name}/*")

    def _home(self, group: str) -> Names:
        """These names in the account and region of a group; unchanged if the group names none."""
        known = model_group(group)
        if known.partition is None or known.region is None or known.account is None:
            return self
        return replace(self, partition=known.partition, region=known.region, account=known.account)

    def object(self, bucket: str, key: str) -> str:
        """The ARN of objects in S3."""
        return f"arn:{self.partition}:s3:::{bucket}/{key}"

    def role(self, kind: str) -> str:
        """The ARN of the role that the stack makes for a kind of work: scheduler, starter, ci."""
        if kind == "scheduler" and "scheduler_role" in self.given:
            return self.given["scheduler_role"]
        return f"arn:{self.partition}:iam::{self.account}:role/{self.named(kind)}"

    def named(self, kind: str, most: int = MAX_ROLE_NAME) -> str:
        """`drivetrain-<pipeline>-<kind>`, with a hash in place of what is too long; `most` characters at most."""
        whole = f"{PREFIX}-{self.pipeline}-{kind}"
        if len(whole) <= most:
            return whole
        digest = hashlib.sha256(self.pipeline.encode()).hexdigest()[:_HASH]
        room = most - len(f"{PREFIX}--{digest}-{kind}")
        return f"{PREFIX}-{self.pipeline[:room].rstrip('-')}-{digest}-{kind}"

    @property
    def pipeline_arn(self) -> str:
        return self.sagemaker(f"pipeline/{self.pipeline}")

    @property
    def event_queue(self) -> str:
        """ARN of the queue on which the rules put events, one at a time in their order (FIFO)."""
        return self.given.get("event_queue", self.arn("sqs", self.named("events.fifo")))

    @property
    def dead_letter_queue(self) -> str:
        """ARN of the queue of events and schedules that came to nothing."""
        return self.given.get("dead_letter_queue", self.arn("sqs", self.named("dead-letters")))

    @property
    def starter(self) -> str:
        """ARN of the function that starts executions for events."""
        return self.arn("lambda", f"function:{self.named('starter')}")

    @property
    def rules(self) -> str:
        """Every event rule of the pipeline."""
        return self.arn("events", f"rule/{name_prefix(self.pipeline)}*")

    @property
    def schedules(self) -> str:
        """Every schedule of the pipeline."""
        return self.arn("scheduler", f"schedule/default/{name_prefix(self.pipeline)}*")

    @property
    def topic(self) -> str:
        """ARN of the topic that tells how executions went."""
        return self.arn("sns", self.named("executions"))

    @property
    def key_alias(self) -> str:
        """The name under which the stack makes the bucket's key."""
        return f"alias/{self.named('key')}"

    @property
    def root(self) -> str:
        """Keys of the pipeline's own folder in the bucket."""
        return f"{self.prefix}/{self.pipeline}"


def role_account(role: str) -> tuple[str, str]:
    """The partition and the account of a role.

    Raises:
        UserError: it is no ARN of an IAM role.
    """
    found = _ROLE.fullmatch(role)
    if found is None:
        raise UserError(
            f"deployment.targets.sagemaker.role is {role!r:.120}. Allowed: the ARN of an IAM role, such as "
            "arn:aws:iam::123456789012:role/retraining; it says in which account the pipeline lives."
        )
    return found[1], found[2]
