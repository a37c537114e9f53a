"""Parts of a definition as the things of AWS that they name: S3 places, image repositories, keys, networks, roles."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from drivetrain.base.json_text import Json, list_in, object_in, objects_in
from drivetrain.spec.model_groups import model_group
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.places import Resolver, S3Place, repository, s3_place
from drivetrain.targets.sagemaker.permissions.uses import Network

_QUEUE = re.compile(r"https://sqs\.([a-z0-9-]+)\.[a-z.]+/(\d{12})/([\w.-]+)")


@dataclass
class Lookup:
    """Finds the ARNs and places behind values; what cannot be found becomes a note of the resolver's."""

    definition: Definition
    names: Names
    resolver: Resolver

    def queues(self, step: StepNode) -> tuple[str, ...]:
        """ARNs of the queue that a Callback step writes to."""
        found: list[str] = []
        for url in self.texts(step.raw.get("SqsQueueUrl"), step, "its queue"):
            parts = _QUEUE.fullmatch(url)
            if parts is None:
                self.resolver.note(f"step {step.name!r}: {url!r:.80} is no URL of a queue that SQS gives.")
            else:
                found.append(f"arn:{self.names.partition}:sqs:{parts[1]}:{parts[2]}:{parts[3]}")
        return tuple(found)

    def property_places(self, step: StepNode) -> tuple[S3Place, ...]:
        """The property files of a processing job, which the pipeline itself reads for Std:JsonGet."""
        outputs = {
            item.get("OutputName"): object_in(item, "S3Output").get("S3Uri")
            for item in objects_in(object_in(step.arguments, "ProcessingOutputConfig"), "Outputs")
        }
        joined: list[Json] = [
            {"Std:Join": {"On": "/", "Values": [outputs.get(file.output_name), file.file_path]}}
            for file in step.property_files.values()
        ]
        return self.places(joined, step, "a property file", whole=True)

    def places(
        self, nodes: Iterable[Json], step: StepNode | None, what: str, *, whole: bool = False, folder: bool = False
    ) -> tuple[S3Place, ...]:
        """The places in S3 that values name.

        Args:
            whole: they are objects, not what begins so.
            folder: they are folders, whether or not a slash ends them.
        """
        found: dict[S3Place, None] = {}
        for node in nodes:
            if node is None:
                continue
            for text in self.texts(node, step, what):
                place = s3_place(text)
                if place is not None:
                    key = f"{place.key.rstrip('/')}/" if folder and place.key else place.key
                    found[S3Place(place.bucket, key, whole)] = None
        return tuple(found)

    def images(self, nodes: Iterable[Json], step: StepNode) -> tuple[str, ...]:
        found = [text for node in nodes if node is not None for text in self.texts(node, step, "its image")]
        return _unique(arn for text in found if (arn := repository(text, self.names.partition)) is not None)

    def keys(self, nodes: Iterable[Json], step: StepNode) -> tuple[str, ...]:
        """ARNs of KMS keys. A policy cannot name a key by its alias, but that of the bucket's key is known."""
        found: list[str] = []
        for text in (text for node in nodes if node is not None for text in self.texts(node, step, "its key")):
            if text == self.names.key_alias and self.names.bucket_key is not None:
                found.append(self.names.bucket_key)
            elif "alias/" in text:
                self.resolver.note(f"step {step.name!r}: key {text!r}: a policy cannot name it so. Give its ARN or id.")
            else:
                found.append(text if text.startswith("arn:") else self.names.arn("kms", f"key/{text}"))
        return _unique(found)

    def groups(self, node: Json, step: StepNode) -> tuple[str, ...]:
        """Model package groups: by name where they are of the pipeline's account and region, else by ARN."""
        found: list[str] = []
        for text in self.texts(node, step, "its group"):
            group = model_group(text)
            if group.account not in (None, self.names.account):
                self.resolver.note(
                    f"step {step.name!r}: group {group.name!r} is of account {group.account}: the group's own policy "
                    "must allow the step's role what its policy here does."
                )
            found.append(group.name if group.is_of(self.names.account, self.names.region) else text)
        return _unique(found)

    def network(self, config: dict[str, Json], step: StepNode) -> Network | None:
        if not config:
            return None
        subnets = [
            text for node in list_in(config, "Subnets") for text in self.texts(node, step, "a subnet", whole=True)
        ]
        groups = [
            text
            for node in list_in(config, "SecurityGroupIds")
            for text in self.texts(node, step, "a group", whole=True)
        ]
        return Network(
            subnets=_unique(self.names.arn("ec2", f"subnet/{subnet}") for subnet in subnets),
            groups=_unique(self.names.arn("ec2", f"security-group/{group}") for group in groups),
        )

    def job_roles(self, step: StepNode, given: Json) -> tuple[str, ...]:
        """The roles that a step's job may have; the pipeline's own where it names none, none where it is not known."""
        return (self.names.pipeline_role,) if given is None else self.roles(step, given, "its role")

    def roles(self, step: StepNode, given: Json, what: str) -> tuple[str, ...]:
        """ARNs of roles, which may be given by their names."""
        found = () if given is None else self.texts(given, step, what, whole=True)
        return tuple(
            text if text.startswith("arn:") else f"arn:{self.names.partition}:iam::{self.names.account}:role/{text}"
            for text in found
        )

    def texts(self, node: Json, step: StepNode | None, what: str, *, whole: bool = False) -> tuple[str, ...]:
        return self.resolver.texts(node, what if step is None else f"step {step.name!r}, {what}", whole=whole)

    def example(self, text: str) -> str:
        """A name that only an execution gives: a wildcard in patterns."""
        return "*" if self.resolver.run.unknown == "*" else text


def with_static(definition: dict[str, Json]) -> dict[str, Json]:
    """A tuning job's kind of training job, with its fixed hyperparameters where a training job has them."""
    return {**definition, "HyperParameters": definition.get("StaticHyperParameters")}


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
