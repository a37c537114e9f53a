"""The permissions of a job's own role: its data, image, log, numbers, and network; one role serves jobs of one kind.

The sets of actions are those that the documentation lists for the execution roles of CreateProcessingJob,
CreateTrainingJob, CreateHyperParameterTuningJob and CreateModel; the resources are the definition's.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from drivetrain.decision.served_findings import SOURCE
from drivetrain.registry.registry import KEPT_TAGS
from drivetrain.targets.sagemaker.document.step_types import job_of
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.places import S3Place
from drivetrain.targets.sagemaker.permissions.policy import Statement, minimal
from drivetrain.targets.sagemaker.permissions.storage import bucket_key, job_keys, reading, result_keys, writing
from drivetrain.targets.sagemaker.permissions.uses import Network, Use

MAKE_INTERFACE = ("ec2:CreateNetworkInterface",)
CHANGE_INTERFACE = (
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
)
LOOK_AT_NETWORK = (
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)
PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
DEBUG = (
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
)
READ_REGISTRY = ("sagemaker:DescribeModelPackage",)
# What drivetrain/registry/backends/sagemaker.py asks when it registers.
WRITE_REGISTRY = ("sagemaker:CreateModelPackage", "sagemaker:DeleteModelPackage")


def job_statements(
    uses: Sequence[Use], names: Names, encrypted: Sequence[tuple[S3Place, str]] = ()
) -> Iterator[Statement]:
    """The policy statements for the role of these jobs.

    Args:
        encrypted: where all steps of the pipeline write, each place with the key that they name for it.
    """
    reads = [place for use in uses for place in use.reads]
    writes = [place for use in uses for place in use.writes]
    yield from reading(reads, names, "inputs of the jobs")
    yield from writing(writes, names, "outputs of the jobs")
    yield from bucket_key(names, reads, writes)
    yield from result_keys(reads, encrypted, names)
    yield from job_keys((k for use in uses for k in use.output_keys), (k for use in uses for k in use.volume_keys))
    yield from pulling((image for use in uses for image in use.images), names)
    yield from _logging(uses, names)
    yield from _networking([use.network for use in uses if use.network is not None], names)
    if any(use.debug for use in uses):
        yield everywhere("LookInside", DEBUG, names, "RemoteDebugConfig opens a session into the container")
    yield from _registry(uses, names)
    if any(use.sends_findings for use in uses):
        yield Statement(
            sid="SendFindings",
            actions=("events:PutEvents",),
            resources=(names.arn("events", "event-bus/default"),),
            conditions={"StringEquals": {"events:source": (SOURCE,)}},
            reason="findings in served data are events that triggers wait for",
        )


def everywhere(sid: str, actions: tuple[str, ...], names: Names, reason: str) -> Statement:
    """Actions for which AWS knows no resource: the region stands in for it (`UNSCOPED` lists each)."""
    return Statement(
        sid=sid,
        actions=actions,
        resources=("*",),
        conditions={"StringEquals": {"aws:RequestedRegion": (names.region,)}},
        reason=reason,
    )


def pulling(images: Iterable[str], names: Names) -> Iterator[Statement]:
    """Fetching container images."""
    if found := minimal(images):
        yield Statement(sid="PullImages", actions=PULL, resources=found, reason="the containers' images")
        yield everywhere(
            "LogInToImages", ("ecr:GetAuthorizationToken",), names, "a registry gives its images to who has its token"
        )


def _logging(uses: Sequence[Use], names: Names) -> Iterator[Statement]:
    logged = [(job.logs, use.job) for use in uses if (job := job_of(use.type)) and job.logs]
    for group in dict.fromkeys(group for group, _ in logged):
        jobs = [names.arn("logs", f"log-group:{group}:log-stream:{_any(job)}") for g, job in logged if g == group]
        kind = group.rpartition("/")[2]
        yield Statement(
            sid=f"Open{kind}Log",
            actions=("logs:CreateLogGroup", "logs:DescribeLogStreams"),
            resources=(names.arn("logs", f"log-group:{group}:*"),),
            reason="jobs write their log",
        )
        yield Statement(
            sid=f"Write{kind}Log",
            actions=("logs:CreateLogStream", "logs:PutLogEvents"),
            resources=minimal(jobs),
            reason="jobs write their log",
        )
        yield Statement(
            sid=f"Write{kind}Numbers",
            actions=("cloudwatch:PutMetricData",),
            resources=("*",),
            conditions={"StringEquals": {"cloudwatch:namespace": (group,)}},
            reason="jobs publish their use of machines, and the numbers found in their log",
        )


def _networking(networks: Sequence[Network], names: Names) -> Iterator[Statement]:
    if not networks:
        return
    subnets = minimal(subnet for network in networks for subnet in network.subnets)
    groups = minimal(group for network in networks for group in network.groups)
    interfaces = names.arn("ec2", "network-interface/*")
    yield Statement(
        sid="JoinNetwork",
        actions=MAKE_INTERFACE,
        resources=(interfaces, *subnets, *groups),
        reason="machines of a job in a private network get an interface there",
    )
    yield Statement(
        sid="ChangeInterfaces",
        actions=CHANGE_INTERFACE,
        resources=(interfaces,),
        conditions={"ArnEquals": {"ec2:Subnet": subnets}},
        reason="interfaces of the job's subnets alone",
    )
    yield Statement(
        sid="LookAtNetwork",
        actions=LOOK_AT_NETWORK,
        resources=("*",),
        conditions={"StringEquals": {"ec2:Region": (names.region,)}},
        reason="machines of a job in a private network get an interface there",
    )


def _registry(uses: Sequence[Use], names: Names) -> Iterator[Statement]:
    """A processing job whose program asks the registry, or registers."""
    asking = [use for use in uses if use.groups]
    groups = tuple(dict.fromkeys(group for use in asking for group in use.groups))
    if not groups:
        return
    lists = ("sagemaker:ListModelPackageGroups", "sagemaker:ListModelPackages")
    reason = "the champion is looked for by a list, and a group that is not there among those that are"
    yield everywhere("ListVersions", lists, names, reason)
    yield Statement(
        sid="ReadVersions",
        actions=READ_REGISTRY,
        resources=tuple(arn for group in groups for arn in names.versions(group)),
        reason="the champion and its numbers",
    )
    arns = tuple(arn for group in groups for arn in names.group(group))
    yield Statement(
        sid="ReadGroup",
        actions=("sagemaker:DescribeModelPackageGroup", "sagemaker:ListTags"),
        resources=arns,
        reason="tags of the group say what compare keeps there",
    )
    yield Statement(
        sid="KeepTags",
        actions=("sagemaker:AddTags",),
        resources=arns,
        conditions={"ForAllValues:StringEquals": {"aws:TagKeys": KEPT_TAGS}},
        reason="comparisons on a test set, and the best approved version, are kept in tags of the group",
    )
    written = tuple(dict.fromkeys(group for use in asking if use.writes_registry for group in use.groups))
    if written:
        yield Statement(
            sid="Register",
            actions=WRITE_REGISTRY,
            resources=tuple(arn for group in written for arn in names.spellings(f"model-package/{group}/*")),
            reason="the program registers versions, and takes one back that another made at the same moment",
        )
        yield Statement(
            sid="MakeGroup",
            actions=("sagemaker:CreateModelPackageGroup",),
            resources=tuple(arn for group in written for arn in names.group(group)),
            reason="the program makes a group that is not there yet",
        )


def _any(job: str) -> str:
    return f"{job.rstrip('*')}*"
