"""Read what each step of a definition touches.

read_uses(definition, names, PATTERNS)      # what roles are allowed: wildcards for what only an execution knows
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drivetrain.base.json_text import Json, as_object, list_in, object_in, objects_in
from drivetrain.registry.evidence import DATA, SERVED
from drivetrain.spec.model_groups import model_group
from drivetrain.spec.resources import CHECK_DATA, CHECK_SERVED, COMPARE, READ_SOURCE, SOURCE_VERSION
from drivetrain.targets.sagemaker.compile.jobs import REGISTRY, REGISTRY_VARIABLE
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.document.step_types import is_processing, step_type
from drivetrain.targets.sagemaker.permissions.lookup import Lookup, sealed, unquoted, with_static
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.places import Resolver, Run, S3Place
from drivetrain.targets.sagemaker.permissions.uses import Reading, Use
from drivetrain.targets.target import EVIDENCE_VARIABLE

READS_REGISTRY = (
    COMPARE,
    CHECK_DATA,
    CHECK_SERVED,
    "drivetrain.components.find_previous:find_previous",
    "drivetrain.components.fetch_previous:fetch_previous",
)
"""The programs that ask the registry and never write there."""

_GROUP_FLAG = "--group"


def read_uses(
    definition: Definition, names: Names, run: Run, values: Mapping[str, Sequence[str]] | None = None
) -> Reading:
    """Read what every step touches.

    Args:
        values: parameter -> what it may be started with, beside its default and its choices.

    Raises:
        UserError: a step whose references cannot be read.
    """
    reader = _Reader(definition, names, Resolver(definition, names.pipeline, run, values or {}))
    found = tuple(each for step in definition.all_steps for use in reader.uses(step) for each in use.each())
    if definition.raw.get("MlflowConfig"):
        reader.resolver.note(
            "MlflowConfig: what the tracking server is asked is not known here; allow the pipeline's role and those of "
            "its jobs what https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow-create-tracking-server-iam.html says."
        )
    config = object_in(definition.raw, "PipelineExperimentConfig")
    experiments = reader.texts(config.get("ExperimentName"), None, "PipelineExperimentConfig, ExperimentName")
    # By default the execution's id, which is unknown before it starts.
    trials = reader.resolver.names_of(config.get("TrialName")) if experiments else ()
    files = reader.places(json_uris(definition.raw), None, "a file that Std:JsonGet reads", whole=True)
    return Reading(found, tuple(reader.resolver.notes), experiments, trials, files)


def json_uris(node: Json) -> Iterator[Json]:
    """The places of JSON that a definition reads by URI, wherever in it."""
    if isinstance(node, dict):
        operand = node.get("Std:JsonGet")
        if isinstance(operand, dict) and "S3Uri" in operand:
            yield operand["S3Uri"]
        for item in node.values():
            yield from json_uris(item)
    elif isinstance(node, list):
        for item in node:
            yield from json_uris(item)


class _Reader(Lookup):
    """Reads steps, each by its type."""

    def uses(self, step: StepNode) -> Iterator[Use]:
        if is_processing(step.type):
            yield self.processing(step)
        elif step.type == "Training":
            yield self.training(step)
        elif step.type == "Tuning":
            yield from self.tuning(step)
        elif step.type == "Transform":
            yield self.transform(step)
        elif step.type == "Model":
            yield self.model(step)
        elif step.type == "RegisterModel":
            yield self.register(step)
        elif step.type == "Lambda":
            yield self.use(step, targets=self.texts(step.raw.get("FunctionArn"), step, "its function"))
        elif step.type == "Callback":
            yield self.use(step, targets=self.queues(step))
        elif step.type == "EMR":
            yield self.emr(step)
        elif step.type == "EMRServerless":
            yield self.emr_serverless(step)
        elif not step_type(step.type).of_the_pipeline:
            self.note(
                step,
                f"what steps of type {step.type!r} need is not known here; allow the pipeline's "
                "role what their documentation says.",
            )

    def processing(self, step: StepNode) -> Use:
        arguments = step.arguments
        environment = object_in(arguments, "Environment")
        words = list_in(object_in(arguments, "AppSpecification"), "ContainerArguments")
        groups, writes_registry = self.registry(step, environment, words)
        if step.type == "ClarifyCheck":
            self.note(
                step,
                "where its analysis asks a model, the job makes an endpoint for it and deletes it "
                "again. The name stands in the file of its analysis, not in the definition; allow the step's role "
                "sagemaker:DescribeModel on the model, and CreateEndpointConfig, DescribeEndpointConfig, "
                "DeleteEndpointConfig, CreateEndpoint, DescribeEndpoint, DeleteEndpoint and InvokeEndpoint on names "
                "that begin with the endpoint_name_prefix that the analysis gives.",
            )
        cluster = object_in(object_in(arguments, "ProcessingResources"), "ClusterConfig")
        output_config = object_in(arguments, "ProcessingOutputConfig")
        outputs = [object_in(item, "S3Output") for item in objects_in(output_config, "Outputs")]
        self.feature_groups(objects_in(output_config, "Outputs"), step)
        inputs = [object_in(item, "S3Input") for item in objects_in(arguments, "ProcessingInputs")]
        self.manifests(inputs, step)
        queried = tuple(self.data_set_places(objects_in(arguments, "ProcessingInputs"), step))
        rows = tuple(place for places, _ in queried for place in places)
        written = self.places((item.get("S3Uri") for item in outputs), step, "an output", folder=True)
        kept, read = self.evidence(step, environment, words)
        keys = self.keys([output_config.get("KmsKeyId")], step)
        network = object_in(arguments, "NetworkConfig")
        return self.use(
            step,
            "ProcessingJobName",
            roles=self.job_roles(step, arguments.get("RoleArn")),
            reads=(
                *self.places((item.get("S3Uri") for item in inputs), step, "an input"),
                *self.places(_sources(words), step, "a source"),
                *rows,
                *(place for group in groups for place in self.champions(group)),
                *kept,
                *read,
            ),
            writes=(*written, *rows, *kept),
            images=self.images([object_in(arguments, "AppSpecification").get("ImageUri")], step),
            output_keys=(*keys, *(key for _, found in queried for key in found)),
            encrypts=(*sealed(written, keys), *(pair for places, found in queried for pair in sealed(places, found))),
            volume_keys=self.keys([cluster.get("VolumeKmsKeyId")], step),
            network=self.network(object_in(network, "VpcConfig"), step),
            properties=self.property_places(step),
            groups=groups,
            writes_registry=writes_registry,
            sends_findings=CHECK_SERVED in words,
        )

    def training(self, step: StepNode) -> Use:
        return self.training_use(step, step.arguments, self.resolver.job_names(step, "TrainingJobName"))

    def training_use(self, step: StepNode, arguments: dict[str, Json], jobs: tuple[str, ...]) -> Use:
        algorithm = object_in(arguments, "AlgorithmSpecification")
        # The second is that of a tuning which chooses among machines.
        resources = object_in(arguments, "ResourceConfig") or object_in(arguments, "HyperParameterTuningResourceConfig")
        output = object_in(arguments, "OutputDataConfig")
        channels = [
            object_in(object_in(item, "DataSource"), "S3DataSource")
            for item in objects_in(arguments, "InputDataConfig")
        ]
        for item in objects_in(arguments, "InputDataConfig"):
            self.file_system(object_in(object_in(item, "DataSource"), "FileSystemDataSource"), step)
        self.manifests(channels, step)
        checkpoints = object_in(arguments, "CheckpointConfig").get("S3Uri")
        tensorboard = object_in(arguments, "TensorBoardOutputConfig").get("S3OutputPath")
        debugger = object_in(arguments, "DebugHookConfig").get("S3OutputPath")
        profiler = object_in(arguments, "ProfilerConfig").get("S3OutputPath")
        rules = self.rules(arguments, step)
        written = [output.get("S3OutputPath"), checkpoints, tensorboard, debugger, profiler]
        read = [*(channel.get("S3Uri") for channel in channels if channel), checkpoints]
        if rules:
            read += [debugger, profiler]
        # The toolkit fetches the user's script from the place that this hyperparameter names.
        read.append(unquoted(object_in(arguments, "HyperParameters").get("sagemaker_submit_directory")))
        writes = self.places([*written, *(rule.get("S3OutputPath") for rule in rules)], step, "an output", folder=True)
        keys = self.keys([output.get("KmsKeyId")], step)
        return Use(
            step=step.name,
            type=step.type,
            jobs=jobs,
            roles=self.job_roles(step, arguments.get("RoleArn")),
            reads=self.places(read, step, "an input"),
            writes=writes,
            images=self.images(
                [algorithm.get("TrainingImage"), *(rule.get("RuleEvaluatorImage") for rule in rules)], step
            ),
            output_keys=keys,
            encrypts=sealed(writes, keys),
            volume_keys=self.keys([resources.get("VolumeKmsKeyId")], step),
            network=self.network(object_in(arguments, "VpcConfig"), step),
            debug=object_in(arguments, "RemoteDebugConfig").get("EnableRemoteDebug") is True,
        )

    def file_system(self, source: dict[str, Json], step: StepNode) -> None:
        """A file system is mounted over the job's network; no page of AWS lists a permission of the role for that."""
        if not source:
            return
        actions = "elasticfilesystem:ClientMount"
        if source.get("FileSystemAccessMode") == "rw":
            actions += " and elasticfilesystem:ClientWrite"
        own = f" If it has a policy of its own, allow the step's role {actions} there."
        self.note(
            step,
            f"file system {str(source.get('FileSystemId'))!r:.80} is reached over the network: its "
            "security group must let those of the step in (port 2049 for EFS; 988 and 1018 to 1023 for Lustre)."
            + (own if source.get("FileSystemType") == "EFS" else ""),
        )

    def tuning(self, step: StepNode) -> Iterator[Use]:
        """The tuning job, and each kind of training job that it starts."""
        several = (step.arguments.get("TrainingJobDefinition"), *list_in(step.arguments, "TrainingJobDefinitions"))
        for item in map(as_object, several):
            if item:
                yield self.training_use(step, with_static(item), (self.resolver.run.unknown,))

    def model(self, step: StepNode) -> Use:
        containers = [object_in(step.arguments, "PrimaryContainer"), *objects_in(step.arguments, "Containers")]
        return self.use(
            step,
            "ModelName",
            roles=self.job_roles(step, step.arguments.get("ExecutionRoleArn")),
            reads=(*self.model_places(containers, step, "the model"), *self.script_places(containers, step)),
            images=self.images([item.get("Image") for item in containers], step),
            network=self.network(object_in(step.arguments, "VpcConfig"), step),
        )

    def transform(self, step: StepNode) -> Use:
        """A transform job works under the role of its model, which another step made or which is there already."""
        given = step.arguments
        source = object_in(object_in(object_in(given, "TransformInput"), "DataSource"), "S3DataSource")
        output = object_in(given, "TransformOutput")
        self.manifests([source], step)
        capture = object_in(given, "DataCaptureConfig")
        resources = object_in(given, "TransformResources")
        written = self.places([output.get("S3OutputPath")], step, "its output", folder=True)
        captured = self.places([capture.get("DestinationS3Uri")], step, "its captured data", folder=True)
        keys, capture_keys = (self.keys([config.get("KmsKeyId")], step) for config in (output, capture))
        model = self.model_step(given.get("ModelName"))
        if model is None:
            self.note(
                step,
                "its model is made elsewhere, so the role of that model must be allowed to read "
                "the step's input and to write its output.",
            )
        return self.use(
            step,
            "TransformJobName",
            roles=() if model is None else self.job_roles(model, model.arguments.get("ExecutionRoleArn")),
            reads=self.places([source.get("S3Uri")], step, "its input"),
            writes=(*written, *captured),
            output_keys=(*keys, *capture_keys),
            encrypts=(*sealed(written, keys), *sealed(captured, capture_keys)),
            volume_keys=self.keys([resources.get("VolumeKmsKeyId")], step),
        )

    def model_step(self, name: Json) -> StepNode | None:
        text = name.get("Get") if isinstance(name, dict) else None
        found = re.match(r"Steps\.([\w-]+)\.", text) if isinstance(text, str) else None
        step = self.definition.by_name.get(found[1]) if found else None
        return step if step is not None and step.type == "Model" else None

    def register(self, step: StepNode) -> Use:
        arguments = step.arguments
        containers = objects_in(object_in(arguments, "InferenceSpecification"), "Containers")
        return self.use(
            step,
            reads=tuple(self.model_places(containers, step, "the model")),
            images=self.images([item.get("Image") for item in containers], step),
            groups=self.groups(arguments.get("ModelPackageGroupName"), step),
            writes_registry=True,
        )

    def emr(self, step: StepNode) -> Use:
        """Work on a cluster that is there, or on one that the step makes."""
        config = object_in(step.arguments, "ClusterConfig")
        if not config:
            found = self.texts(step.arguments.get("ClusterId"), step, "its cluster")
            return self.use(step, targets=tuple(self.names.arn("elasticmapreduce", f"cluster/{i}") for i in found))
        return self.use(
            step,
            targets=(self.names.arn("elasticmapreduce", f"cluster/{self.example('j-2AXXXXXXGAPLF')}"),),
            passes=tuple(
                (role, service)
                for key, service in (
                    ("ServiceRole", "elasticmapreduce.amazonaws.com"),
                    ("JobFlowRole", "ec2.amazonaws.com"),
                    ("AutoScalingRole", "application-autoscaling.amazonaws.com"),
                )
                for role in self.roles(step, config.get(key), key)
            ),
            makes=True,
        )

    def emr_serverless(self, step: StepNode) -> Use:
        """A job of an application that is there, or of one that the step makes."""
        given = step.arguments.get("ApplicationId")
        known = self.texts(given, step, "its application")
        return self.use(
            step,
            targets=tuple(
                self.names.arn("emr-serverless", f"/applications/{i}") for i in known or (self.example("00f1abcdxmpl"),)
            ),
            passes=tuple(
                (role, "emr-serverless.amazonaws.com")
                for role in self.roles(step, step.arguments.get("ExecutionRoleArn"), "its role")
            ),
            makes=given is None,
        )

    def use(self, step: StepNode, named_by: str = "", **facts: Any) -> Use:
        """A use of a step.

        Args:
            named_by: the argument by which the step names its job, if it may.
            facts: the other fields of `Use`.
        """
        return Use(step=step.name, type=step.type, jobs=self.resolver.job_names(step, named_by), **facts)

    def registry(self, step: StepNode, environment: dict[str, Json], words: list[Json]) -> tuple[tuple[str, ...], bool]:
        """The groups that a program asks, and whether it writes there, too."""
        if environment.get(REGISTRY_VARIABLE) != REGISTRY:
            return (), False
        groups = self.asked_groups(step, words)
        return groups, bool(groups) and not any(program in words for program in READS_REGISTRY)

    def asked_groups(self, step: StepNode, words: list[Json]) -> tuple[str, ...]:
        place = words.index(_GROUP_FLAG) + 1 if _GROUP_FLAG in words else len(words)
        return self.groups(words[place], step) if place < len(words) else ()

    def evidence(
        self, step: StepNode, environment: dict[str, Json], words: list[Json]
    ) -> tuple[tuple[S3Place, ...], tuple[S3Place, ...]]:
        """The objects in which a step keeps what is shown of a group: one of comparisons, one of findings, or those of
        data; and those that it reads beside them."""
        folder = environment.get(EVIDENCE_VARIABLE)
        if not isinstance(folder, str):
            return (), ()
        groups = [f"{folder}/{model_group(group).name}" for group in self.asked_groups(step, words)]
        data = self.places([f"{group}{DATA}" for group in groups], step, "its evidence")
        if CHECK_DATA in words:
            return data, ()
        looks = CHECK_SERVED in words
        one = [f"{group}{SERVED if looks else '.npz'}" for group in groups]
        return self.places(one, step, "its evidence", whole=True), data if looks else ()

    def champions(self, group: str) -> tuple[S3Place, ...]:
        """The places of the models that the pipeline registers in a group; another pipeline's are not known here."""
        registered = [step for step in self.definition.all_steps if step.type == "RegisterModel"]
        containers = [
            container
            for step in registered
            if group in self.groups(step.arguments.get("ModelPackageGroupName"), step)
            for container in objects_in(object_in(step.arguments, "InferenceSpecification"), "Containers")
        ]
        if not containers:
            self.resolver.note(
                f"group {group!r}: its models are registered elsewhere, so no place is allowed for them."
            )
        return tuple(self.model_places(containers, None, f"the models of group {group!r}"))


def _sources(words: list[Json]) -> list[Json]:
    """The places in S3 of the source that a step looks at, or reads by itself."""
    if not {SOURCE_VERSION, READ_SOURCE}.intersection(word for word in words if isinstance(word, str)):
        return []
    given = words[words.index("--source") + 1]
    if isinstance(given, str):
        given = given.removeprefix("delta:")
        return [given] if given.startswith("s3://") else []
    return [given] if "--of-input" in words else []
