"""Every call to AWS that deploying a definition and running it once makes, by the role that makes it.

    for request in requests(compiled.definition, names): print(request)

Played through step by step with example names for what only an execution gives, and written apart from the policies,
so that one can be held against the other. What services do under their own roles is not among it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivetrain.pipelines.definition.document import Definition, from_json
from drivetrain.pipelines.targets.sagemaker.permissions.names import Names
from drivetrain.pipelines.targets.sagemaker.permissions.places import EXAMPLE, EXAMPLE_EXECUTION, S3Place
from drivetrain.pipelines.targets.sagemaker.permissions.policy import Request
from drivetrain.pipelines.targets.sagemaker.permissions.reading import read_uses
from drivetrain.pipelines.targets.sagemaker.permissions.requests_around import deploying, starting
from drivetrain.pipelines.targets.sagemaker.permissions.uses import Network, Reading, Use

_PROCESSING = ("ProcessingJob", "processing-job", "ProcessingJobs")
# Step type -> the API's name, the resource's, and the log's.
_JOBS = {
    "Processing": _PROCESSING,
    "QualityCheck": _PROCESSING,
    "ClarifyCheck": _PROCESSING,
    "Training": ("TrainingJob", "training-job", "TrainingJobs"),
    "Tuning": ("HyperParameterTuningJob", "hyper-parameter-tuning-job", "TrainingJobs"),
    "Transform": ("TransformJob", "transform-job", "TransformJobs"),
    "Model": ("Model", "model", None),
}
_TUNING_JOB = f"{EXAMPLE_EXECUTION}-tune-tmgxry49ug"


def requests(
    definition: Definition | Mapping[str, Any], names: Names, values: Mapping[str, Sequence[str]] | None = None
) -> tuple[Request, ...]:
    """The calls, each once, in the order in which they come.

    Args:
        values: parameter -> what the execution may be started with, beside its default and its choices.

    Raises:
        UserError: a definition whose references cannot be read.
    """
    if not isinstance(definition, Definition):
        definition = from_json(dict(definition), names.pipeline)
    reading = read_uses(definition, names, EXAMPLE, values)
    run = _Run(names)
    found = [*deploying(reading, names), *starting(names), *run.execution(reading)]
    seen: dict[tuple[Any, ...], Request] = {}
    for request in found:
        seen.setdefault(
            (request.role, request.action, request.resource, tuple(sorted(request.context.items()))), request
        )
    return tuple(seen.values())


@dataclass(frozen=True)
class _Run:
    """One execution."""

    names: Names

    def execution(self, reading: Reading) -> Iterator[Request]:
        yield from self.experiment(reading)
        for use in reading.uses:
            yield from self.step(use)
        for place in reading.files:
            yield from self.read(self.names.pipeline_role, place, "Std:JsonGet by URI")

    def experiment(self, reading: Reading) -> Iterator[Request]:
        if not any(use.type in _JOBS for use in reading.uses):
            return
        for name in reading.experiments:
            for action in ("CreateExperiment", "DescribeExperiment", "CreateTrial"):
                yield from self.ours(action, f"experiment/{name}", "the execution is kept in an experiment")
        for name in reading.trials:
            for action in ("CreateTrial", "DescribeTrial", "AssociateTrialComponent"):
                yield from self.ours(action, f"experiment-trial/{name}", "the execution is a trial")
        for use in reading.uses if reading.trials else ():
            if use.type in _JOBS:
                name = f"pipelines-{EXAMPLE_EXECUTION}-{use.step}-tmgxry49ug-aws-job".lower()
                for action in ("CreateTrialComponent", "DescribeTrialComponent", "AssociateTrialComponent"):
                    yield self.pipeline(
                        f"sagemaker:{action}",
                        self.names.sagemaker(f"experiment-trial-component/{name}"),
                        f"step {use.step} is part of the trial",
                    )

    def step(self, use: Use) -> Iterator[Request]:
        """What the pipeline does for a step, and then its job."""
        why = f"step {use.step}"
        if use.type in _JOBS:
            api, resource, log = _JOBS[use.type]
            name = _TUNING_JOB if use.type == "Tuning" else use.job
            if use.role is not None and use.type != "Transform":
                yield from self.passing(use.role, "sagemaker.amazonaws.com", why)
            for verb in ("Create", "Describe", *(() if api == "Model" else ("Stop",))):
                yield from self.ours(f"{verb}{api}", f"{resource}/{name}", why)
            yield from self.ours("AddTags", f"{resource}/{name}", why, {"sagemaker:TaggingAction": f"Create{api}"})
            for place in use.properties:
                yield self.pipeline("s3:GetObject", self.object(place, ""), f"{why}: its numbers, for conditions")
                yield from self.bucket_key(self.names.pipeline_role, place, why, "kms:Decrypt")
            if use.role is not None:
                yield from self.job(use, use.role, log, why)
        elif use.type == "RegisterModel":
            yield from self.registration(use, why)
        for role, service in use.passes:
            yield from self.passing(role, service, why)
        for target in use.targets:
            yield from self.call(use, target, why)

    def job(self, use: Use, role: str, log: str | None, why: str) -> Iterator[Request]:
        """What the job itself does: pull, read, work, log, write."""
        yield from self.pull(role, use.images, why)
        for place in use.reads:
            yield from self.read(role, place, why)
        for place in use.writes:
            yield self.ask(role, "s3:PutObject", self.object(place, "part-0"), why)
            for action in ("kms:GenerateDataKey", "kms:Decrypt"):
                yield from self.bucket_key(role, place, why, action)
        for key in use.output_keys:
            for action in ("kms:Encrypt", "kms:GenerateDataKey", "kms:Decrypt"):
                yield self.ask(role, action, key, why)
        for key in use.volume_keys:
            yield self.ask(role, "kms:CreateGrant", key, why, {"kms:GrantIsForAWSResource": "true"})
        if log is not None:
            yield from self.log(role, use.job, log, why)
        if use.network is not None:
            yield from self.join(role, use.network, why)
        if use.debug:
            for channel in ("CreateControlChannel", "CreateDataChannel", "OpenControlChannel", "OpenDataChannel"):
                yield self.everywhere(role, f"ssmmessages:{channel}", f"{why}: a person looks into the container")
        for group in use.groups:
            yield from self.registry(use, role, group, why)

    def read(self, role: str, place: S3Place, why: str) -> Iterator[Request]:
        """An input is every object whose key begins so; what is whole is one object."""
        if not place.whole:
            bucket = f"arn:{self.names.partition}:s3:::{place.bucket}"
            yield self.ask(role, "s3:ListBucket", bucket, why, {"s3:prefix": place.key})
        yield self.ask(role, "s3:GetObject", self.object(place, "" if place.whole else "/part-0"), why)
        yield from self.bucket_key(role, place, why, "kms:Decrypt")

    def log(self, role: str, job: str, log: str, why: str) -> Iterator[Request]:
        group = f"log-group:/aws/sagemaker/{log}:log-stream:"
        for action in ("logs:CreateLogGroup", "logs:DescribeLogStreams"):
            yield self.ask(role, action, self.names.arn("logs", group), why)
        for action in ("logs:CreateLogStream", "logs:PutLogEvents"):
            yield self.ask(role, action, self.names.arn("logs", f"{group}{job}/algo-1-1600000000"), why)
        yield self.ask(role, "cloudwatch:PutMetricData", "*", why, {"cloudwatch:namespace": f"/aws/sagemaker/{log}"})

    def join(self, role: str, network: Network, why: str) -> Iterator[Request]:
        interface = self.names.arn("ec2", "network-interface/eni-0a1b2c3d")
        for resource in (interface, *network.subnets, *network.groups):
            yield self.ask(role, "ec2:CreateNetworkInterface", resource, why)
        for subnet in network.subnets:
            for action in ("CreateNetworkInterfacePermission", "DeleteNetworkInterface"):
                yield self.ask(role, f"ec2:{action}", interface, why, {"ec2:Subnet": subnet})
            yield self.ask(role, "ec2:DeleteNetworkInterfacePermission", interface, why, {"ec2:Subnet": subnet})
        for thing in ("DhcpOptions", "NetworkInterfaces", "SecurityGroups", "Subnets", "Vpcs"):
            yield self.ask(role, f"ec2:Describe{thing}", "*", why, {"ec2:Region": self.names.region})

    def registry(self, use: Use, role: str, group: str, why: str) -> Iterator[Request]:
        """What components/registries/sagemaker.py asks, to read or to register."""
        yield self.everywhere(role, "sagemaker:ListModelPackages", why)
        packages = self.names.spellings(f"model-package/{group}/3")
        for package in packages:
            yield self.ask(role, "sagemaker:DescribeModelPackage", package, why)
        if use.writes_registry:
            for package in packages:
                for action in ("CreateModelPackage", "DeleteModelPackage"):
                    yield self.ask(role, f"sagemaker:{action}", package, why)
            for whole in self.names.spellings(f"model-package-group/{group}"):
                for action in ("DescribeModelPackageGroup", "CreateModelPackageGroup"):
                    yield self.ask(role, f"sagemaker:{action}", whole, why)

    def registration(self, use: Use, why: str) -> Iterator[Request]:
        for place in use.reads:
            yield from self.read(self.names.pipeline_role, place, why)
        yield from self.pull(self.names.pipeline_role, use.images, why)
        for group in use.groups:
            yield from self.ours("CreateModelPackage", f"model-package-group/{group}", why)
            for action in ("CreateModelPackage", "DescribeModelPackage"):
                yield from self.ours(action, f"model-package/{group}/3", why)
            tagging = {"sagemaker:TaggingAction": "CreateModelPackage"}
            yield from self.ours("AddTags", f"model-package/{group}/3", why, tagging)

    def call(self, use: Use, target: str, why: str) -> Iterator[Request]:
        """Lambda, Callback, EMR."""
        if use.type == "Lambda":
            yield self.pipeline("lambda:InvokeFunction", target, why)
        elif use.type == "Callback":
            yield self.pipeline("sqs:SendMessage", target, why)
        elif use.type == "EMR":
            rule = "Cluster" if use.makes else "Step"
            for action in ("DescribeRule", "PutRule", "PutTargets"):
                arn = self.names.arn("events", f"rule/SageMakerPipelineExecutionEMR{rule}StatusUpdateRule")
                yield self.pipeline(f"events:{action}", arn, why)
            if use.makes:
                yield self.everywhere(self.names.pipeline_role, "elasticmapreduce:RunJobFlow", why)
            made = ("DescribeCluster", "TerminateJobFlows") if use.makes else ()
            for action in ("AddJobFlowSteps", "CancelSteps", "DescribeStep", "ListSteps", *made):
                yield self.pipeline(f"elasticmapreduce:{action}", target, why)
        elif use.type == "EMRServerless":
            if use.makes:
                yield self.everywhere(self.names.pipeline_role, "emr-serverless:CreateApplication", why)
                for action in ("GetApplication", "StartApplication", "StopApplication", "DeleteApplication"):
                    yield self.pipeline(f"emr-serverless:{action}", target, why)
            yield self.pipeline("emr-serverless:StartJobRun", target, why)
            for action in ("GetJobRun", "CancelJobRun"):
                yield self.pipeline(f"emr-serverless:{action}", f"{target}/jobruns/00f1run", why)

    def pull(self, role: str, images: Iterable[str], why: str) -> Iterator[Request]:
        for image in images:
            yield self.everywhere(role, "ecr:GetAuthorizationToken", why)
            for action in ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer"):
                yield self.ask(role, f"ecr:{action}", image, why)

    def passing(self, role: str, service: str, why: str) -> Iterator[Request]:
        yield self.pipeline("iam:PassRole", role, why, {"iam:PassedToService": service})

    def bucket_key(self, role: str, place: S3Place, why: str, action: str) -> Iterator[Request]:
        if self.names.bucket_key is not None and place.bucket == self.names.bucket:
            via = f"s3.{self.names.region}.amazonaws.com" + (".cn" if self.names.partition == "aws-cn" else "")
            yield self.ask(role, action, self.names.bucket_key, f"{why}: {place.bucket}", {"kms:ViaService": via})

    def object(self, place: S3Place, below: str) -> str:
        key = place.key.rstrip("/") + "/" + below.lstrip("/") if below else place.key
        return f"arn:{self.names.partition}:s3:::{place.bucket}/{key}"

    def ours(self, action: str, resource: str, why: str, context: Mapping[str, str] | None = None) -> Iterator[Request]:
        """A call of the pipeline's to SageMaker, in both spellings in which the service writes names."""
        for arn in self.names.spellings(resource):
            yield self.pipeline(f"sagemaker:{action}", arn, why, context)

    def pipeline(self, action: str, resource: str, why: str, context: Mapping[str, str] | None = None) -> Request:
        return self.ask(self.names.pipeline_role, action, resource, why, context)

    def everywhere(self, role: str, action: str, why: str) -> Request:
        return self.ask(role, action, "*", why)

    def ask(self, role: str, action: str, resource: str, why: str, context: Mapping[str, str] | None = None) -> Request:
        known = {"aws:RequestedRegion": self.names.region, **(context or {})}
        return Request(role=role, action=action, resource=resource, why=why, context=known)
