"""Parts of a definition as the things of AWS that they name: S3 places, image repositories, keys, networks, roles.

Beside plain inputs and outputs, jobs read and write models, data sets of a query, and what Debugger's rules need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from drivetrain.base.json_text import Json, list_in, object_in, objects_in
from drivetrain.spec.model_groups import model_group
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.places import Resolver, S3Place, repository, s3_place
from drivetrain.targets.sagemaker.permissions.uses import Network

_QUEUE = re.compile(r"https://sqs\.([a-z0-9-]+)\.[a-z.]+/(\d{12})/([\w.-]+)")
SUBMIT_DIRECTORY = "SAGEMAKER_SUBMIT_DIRECTORY"
"""Variable by which a toolkit of SageMaker's is told where the user's script lies."""
MANIFEST = "allow its role to read the objects that its manifest lists, too."
_DATA_SETS = {
    "AthenaDatasetDefinition": (
        "Athena asks under the step's role: allow it athena:StartQueryExecution, GetQueryExecution and GetQueryResults "
        "on the work group, and what the tables take (Glue, and the places of their data)."
    ),
    "RedshiftDatasetDefinition": (
        "Redshift writes under its ClusterRoleArn: allow that role the place of the rows, and the step's role what "
        "asking the cluster takes."
    ),
}


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
                self.note(step, f"{url!r:.80} is no URL of a queue that SQS gives.")
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
        for text in (text for node in nodes for text in self.texts(node, step, what)):
            place = s3_place(text)
            if place is not None:
                key = f"{place.key.rstrip('/')}/" if folder and place.key else place.key
                found[S3Place(place.bucket, key, whole)] = None
        return tuple(found)

    def images(self, nodes: Iterable[Json], step: StepNode) -> tuple[str, ...]:
        found = [text for node in nodes for text in self.texts(node, step, "its image")]
        return _unique(arn for text in found if (arn := repository(text, self.names.partition)) is not None)

    def keys(self, nodes: Iterable[Json], step: StepNode) -> tuple[str, ...]:
        """ARNs of KMS keys. A policy cannot name a key by its alias, but that of the bucket's key is known."""
        found: list[str] = []
        for text in (text for node in nodes for text in self.texts(node, step, "its key")):
            if text == self.names.key_alias and self.names.bucket_key is not None:
                found.append(self.names.bucket_key)
            elif "alias/" in text:
                self.note(step, f"key {text!r}: a policy cannot name it so. Give its ARN or id.")
            else:
                found.append(text if text.startswith("arn:") else self.names.arn("kms", f"key/{text}"))
        return _unique(found)

    def groups(self, node: Json, step: StepNode) -> tuple[str, ...]:
        """Model package groups: by name where they are of the pipeline's account and region, else by ARN."""
        found: list[str] = []
        for text in self.texts(node, step, "its group"):
            group = model_group(text)
            if group.account not in (None, self.names.account):
                self.note(
                    step,
                    f"group {group.name!r} is of account {group.account}: the group's own policy must allow the step's "
                    "role what its policy here does.",
                )
            found.append(group.name if group.is_of(self.names.account, self.names.region) else text)
        return _unique(found)

    def network(self, config: dict[str, Json], step: StepNode) -> Network | None:
        if not config:
            return None

        def arns(key: str, what: str, kind: str) -> tuple[str, ...]:
            found = (text for node in list_in(config, key) for text in self.texts(node, step, what, whole=True))
            return _unique(self.names.arn("ec2", f"{kind}/{text}") for text in found)

        return Network(
            subnets=arns("Subnets", "a subnet", "subnet"),
            groups=arns("SecurityGroupIds", "a group", "security-group"),
        )

    def job_roles(self, step: StepNode, given: Json) -> tuple[str, ...]:
        """The roles that a step's job may have; the pipeline's own where it names none, none where it is not known."""
        return (self.names.pipeline_role,) if given is None else self.roles(step, given, "its role")

    def roles(self, step: StepNode, given: Json, what: str) -> tuple[str, ...]:
        """ARNs of roles, which may be given by their names."""
        return tuple(
            text if text.startswith("arn:") else f"arn:{self.names.partition}:iam::{self.names.account}:role/{text}"
            for text in self.texts(given, step, what, whole=True)
        )

    def texts(self, node: Json, step: StepNode | None, what: str, *, whole: bool = False) -> tuple[str, ...]:
        """Every text that a value may be; none for null."""
        return self.resolver.texts(node, what if step is None else f"step {step.name!r}, {what}", whole=whole)

    def example(self, text: str) -> str:
        """A name that only an execution gives: a wildcard in patterns."""
        return "*" if self.resolver.run.unknown == "*" else text

    def model_places(self, containers: Iterable[dict[str, Json]], step: StepNode | None, what: str) -> list[S3Place]:
        """Find the places of containers' models: each an object, or a folder whose objects are found by listing."""
        objects: list[Json] = []
        folders: list[Json] = []
        for container in containers:
            several = container.get("Mode") == "MultiModel"
            (folders if several else objects).append(container.get("ModelDataUrl"))
            for source in _model_sources(container):
                single = source.get("S3DataType") in (None, "S3Object") and not several
                (objects if single else folders).append(source.get("S3Uri"))
                if source.get("ManifestS3Uri") is not None:
                    objects.append(source["ManifestS3Uri"])
                    self.note(step, MANIFEST)
            if container.get("ModelPackageName") is not None:
                self.note(
                    step,
                    "its model is that of a model package; allow its role to read the place that the package names, "
                    "and the pipeline's role sagemaker:DescribeModelPackage on it.",
                )
        return [*self.places(objects, step, what, whole=True), *self.places(folders, step, what, folder=True)]

    def script_places(self, containers: Iterable[dict[str, Json]], step: StepNode) -> tuple[S3Place, ...]:
        """The scripts that the containers of a model fetch, each an archive."""
        given = (object_in(container, "Environment").get(SUBMIT_DIRECTORY) for container in containers)
        return self.places((unquoted(value) for value in given), step, "its script", whole=True)

    def data_set_places(
        self, inputs: Sequence[dict[str, Json]], step: StepNode
    ) -> Iterator[tuple[tuple[S3Place, ...], tuple[str, ...]]]:
        """Find the places that the rows of inputs that are queries are written to and read from, with the keys that
        encrypt them."""
        for item in inputs:
            given = object_in(item, "DatasetDefinition")
            for kind, says in _DATA_SETS.items():
                if source := object_in(given, kind):
                    self.note(step, f"input {str(item.get('InputName'))!r:.80} is a query: {says}")
                    rows = self.places([source.get("OutputS3Uri")], step, "the rows of an input", folder=True)
                    yield rows, self.keys([source.get("KmsKeyId")], step)

    def feature_groups(self, outputs: Iterable[dict[str, Json]], step: StepNode) -> None:
        """Outputs that go into Feature Store; their group may have stores and keys of its own."""
        for item in outputs:
            if feature := object_in(item, "FeatureStoreOutput"):
                self.note(
                    step,
                    f"output {str(item.get('OutputName'))!r:.80} goes into a feature group: allow the step's role "
                    f"sagemaker:PutRecord and DescribeFeatureGroup on {str(feature.get('FeatureGroupName'))!r:.80}.",
                )

    def rules(self, arguments: dict[str, Json], step: StepNode) -> list[dict[str, Json]]:
        """Debugger's rules of a training, which SageMaker runs as processing jobs under the training's role."""
        kinds = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
        found = [rule for kind in kinds for rule in objects_in(arguments, kind)]
        if found:
            self.note(
                step,
                "the rules of its Debugger are jobs of the service's own naming under the step's role; allow it to "
                "write their log (/aws/sagemaker/ProcessingJobs).",
            )
        return found

    def manifests(self, sources: Iterable[dict[str, Json]], step: StepNode) -> None:
        if any("Manifest" in str(source.get("S3DataType")) for source in sources):
            self.note(step, MANIFEST)

    def note(self, step: StepNode | None, text: str) -> None:
        if step is not None:
            self.resolver.note(f"step {step.name!r}: {text}")


def with_static(definition: dict[str, Json]) -> dict[str, Json]:
    """A tuning job's kind of training job, with its fixed hyperparameters where a training job has them."""
    return {**definition, "HyperParameters": definition.get("StaticHyperParameters")}


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def unquoted(value: Json) -> Json:
    """Text as it is meant: SageMaker's SDK writes hyperparameters as JSON."""
    return value.strip('"') if isinstance(value, str) else value


def sealed(places: Iterable[S3Place], keys: Sequence[str]) -> tuple[tuple[S3Place, str], ...]:
    """Each place with each key that what lies there may be encrypted with."""
    return tuple((place, key) for place in places for key in keys)


def _model_sources(container: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """The descriptions of data in S3 of a container."""
    yield object_in(object_in(container, "ModelDataSource"), "S3DataSource")
    for item in objects_in(container, "AdditionalModelDataSources"):
        yield object_in(item, "S3DataSource")
    yield object_in(container, "AdditionalS3DataSource")
