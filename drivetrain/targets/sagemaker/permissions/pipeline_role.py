"""The permissions of the pipeline's own role: to start, watch and stop the jobs of its steps, and to pass their roles
on.

"Create and Describe permissions for each of the job types in the pipeline", iam:PassRole for the roles of the jobs,
and s3:GetObject for JsonGet are documented; jobs are stopped with their execution, and tagged with it.
https://docs.aws.amazon.com/sagemaker/latest/dg/build-and-manage-access.html
https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonSageMakerPipelinesIntegrations.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drivetrain.targets.sagemaker.document.step_types import Job, job_of
from drivetrain.targets.sagemaker.permissions.job_roles import everywhere, pulling
from drivetrain.targets.sagemaker.permissions.names import JOB_PREFIX, Names
from drivetrain.targets.sagemaker.permissions.places import S3Place
from drivetrain.targets.sagemaker.permissions.policy import Statement, minimal
from drivetrain.targets.sagemaker.permissions.storage import bucket_key, reading, result_keys
from drivetrain.targets.sagemaker.permissions.uses import Reading, Use

SAGEMAKER = "sagemaker.amazonaws.com"
# With which the service tags each job of an execution.
EXECUTION_TAG = "sagemaker:pipeline-execution-arn"


# Of an experiment the trial components are named by the jobs, the rest by the pipeline and its executions.
EXPERIMENT_ACTIONS = ("sagemaker:CreateExperiment", "sagemaker:CreateTrial", "sagemaker:DescribeExperiment")
TRIAL_ACTIONS = ("sagemaker:CreateTrial", "sagemaker:DescribeTrial", "sagemaker:AssociateTrialComponent")
COMPONENT_ACTIONS = (
    "sagemaker:CreateTrialComponent",
    "sagemaker:DescribeTrialComponent",
    "sagemaker:AssociateTrialComponent",
)
# The rules by which SageMaker hears of EMR's work; it makes them in the account itself.
EMR_RULES = {
    False: "SageMakerPipelineExecutionEMRStepStatusUpdateRule",
    True: "SageMakerPipelineExecutionEMRClusterStatusUpdateRule",
}
RULE_ACTIONS = ("events:DescribeRule", "events:PutRule", "events:PutTargets")
EMR_STEP = (
    "elasticmapreduce:AddJobFlowSteps",
    "elasticmapreduce:CancelSteps",
    "elasticmapreduce:DescribeStep",
    "elasticmapreduce:ListSteps",
)
EMR_CLUSTER = ("elasticmapreduce:DescribeCluster", "elasticmapreduce:TerminateJobFlows")
SERVERLESS_RUN = ("emr-serverless:StartJobRun", "emr-serverless:GetJobRun", "emr-serverless:CancelJobRun")
SERVERLESS_APPLICATION = (
    "emr-serverless:GetApplication",
    "emr-serverless:StartApplication",
    "emr-serverless:StopApplication",
    "emr-serverless:DeleteApplication",
)


def pipeline_statements(known: Reading, names: Names, recorded: Sequence[S3Place] = ()) -> Iterator[Statement]:
    """Rights of the role that the pipeline is created with.

    Args:
        recorded: where the definition itself lies, if the service must read it from the bucket.
    """
    uses = known.uses
    for job in dict.fromkeys(job for use in uses if (job := job_of(use.type))):
        yield from _jobs(job, [use for use in uses if job_of(use.type) == job], names)
    yield from _passing(uses)
    registering = [use for use in uses if use.type == "RegisterModel"]
    read = [*(place for use in uses for place in use.properties), *known.files, *recorded]
    read += [place for use in registering for place in use.reads]
    yield from reading(read, names, "numbers for conditions, models that are registered, a definition of over 1 MiB")
    yield from bucket_key(names, read)
    yield from result_keys(read, known.encrypted, names)
    yield from _register(registering, names)
    yield from _experiments(known, names)
    yield from _calls(uses, names)


def _jobs(job: Job, uses: Sequence[Use], names: Names) -> Iterator[Statement]:
    kind = job.resource
    # A tuning job's name has no room for the prefix of the others, so its name is not known.
    given = ["*" if use.type == "Tuning" else f"{use.job.rstrip('*')}*" for use in uses]
    resources = minimal(arn for name in given for arn in names.spellings(f"{kind}/{name}"))
    yield Statement(
        sid=f"Run{job.api}s",
        actions=(f"sagemaker:Create{job.api}", f"sagemaker:Describe{job.api}"),
        resources=resources,
        reason=f"steps that are {kind}s",
    )
    if job.stops:
        executions = names.spellings(f"pipeline/{names.pipeline}/execution/*")
        yield Statement(
            sid=f"Stop{job.api}s",
            actions=(f"sagemaker:Stop{job.api}",),
            resources=resources,
            conditions={"StringLike": {f"aws:ResourceTag/{EXECUTION_TAG}": executions}},
            reason=f"{kind}s end with their execution, and those of other pipelines with steps of that name do not",
        )
    yield tagging(f"Tag{job.api}s", resources, f"Create{job.api}", f"{kind}s are tagged with their execution")


def tagging(sid: str, resources: tuple[str, ...], action: str, reason: str) -> Statement:
    """Tags that are given with the creation of a thing, and no others."""
    return Statement(
        sid=sid,
        actions=("sagemaker:AddTags",),
        resources=resources,
        conditions={"StringEquals": {"sagemaker:TaggingAction": (action,)}},
        reason=reason,
    )


def _passing(uses: Sequence[Use]) -> Iterator[Statement]:
    """A transform job brings no role of its own: it works under that of its model."""
    own = [(use.role, SAGEMAKER) for use in uses if use.role is not None and use.type != "Transform"]
    pairs = [*own, *(passed for use in uses for passed in use.passes)]
    for service in dict.fromkeys(service for _, service in pairs):
        yield Statement(
            sid=f"PassTo{''.join(part.title() for part in service.partition('.')[0].split('-'))}",
            actions=("iam:PassRole",),
            resources=minimal(role for role, to in pairs if to == service),
            conditions={"StringEquals": {"iam:PassedToService": (service,)}},
            reason="jobs work under roles of their own",
        )


def _register(uses: Sequence[Use], names: Names) -> Iterator[Statement]:
    groups = tuple(dict.fromkeys(group for use in uses for group in use.groups))
    if not groups:
        return
    packages = tuple(arn for group in groups for arn in names.versions(group))
    yield Statement(
        sid="RegisterVersions",
        actions=("sagemaker:CreateModelPackage",),
        resources=(*(arn for group in groups for arn in names.group(group)), *packages),
        reason="RegisterModel steps",
    )
    yield Statement(
        sid="DescribeVersions",
        actions=("sagemaker:DescribeModelPackage",),
        resources=packages,
        reason="RegisterModel steps",
    )
    yield tagging("TagVersions", packages, "CreateModelPackage", "versions are tagged with their execution")
    yield from pulling((image for use in uses for image in use.images), names)


def _experiments(known: Reading, names: Names) -> Iterator[Statement]:
    """The permissions for what PipelineExperimentConfig makes the service keep (inferred: no page lists them)."""
    if not known.experiments or not any(job_of(use.type) for use in known.uses):
        return
    yield Statement(
        sid="KeepExperiments",
        actions=EXPERIMENT_ACTIONS,
        resources=minimal(arn for name in known.experiments for arn in names.spellings(f"experiment/{name}")),
        reason="PipelineExperimentConfig",
    )
    yield Statement(
        sid="KeepTrials",
        actions=TRIAL_ACTIONS,
        resources=minimal(arn for name in known.trials for arn in names.spellings(f"experiment-trial/{name}")),
        reason="PipelineExperimentConfig",
    )
    yield Statement(
        sid="KeepTrialComponents",
        actions=COMPONENT_ACTIONS,
        resources=(names.sagemaker(f"experiment-trial-component/{JOB_PREFIX}*"),),
        reason="PipelineExperimentConfig: a component is named by its job",
    )


def _calls(uses: Sequence[Use], names: Names) -> Iterator[Statement]:
    """Lambda, Callback and EMR steps."""
    targets = {use.type: minimal(t for u in uses if u.type == use.type for t in u.targets) for use in uses}
    if found := targets.get("Lambda"):
        yield Statement(sid="CallFunctions", actions=("lambda:InvokeFunction",), resources=found, reason="Lambda steps")
    if found := targets.get("Callback"):
        yield Statement(sid="AskQueues", actions=("sqs:SendMessage",), resources=found, reason="Callback steps")
    emr = [use for use in uses if use.type == "EMR"]
    if emr:
        clusters = minimal(target for use in emr for target in use.targets)
        yield Statement(sid="WorkOnClusters", actions=EMR_STEP, resources=clusters, reason="EMR steps")
        rules = tuple(names.arn("events", f"rule/{EMR_RULES[makes]}") for makes in sorted({use.makes for use in emr}))
        yield Statement(sid="HearOfClusters", actions=RULE_ACTIONS, resources=rules, reason="EMR steps are told so")
    if any(use.makes for use in emr):
        yield everywhere("MakeClusters", ("elasticmapreduce:RunJobFlow",), names, "EMR steps that make a cluster")
        made = minimal(target for use in emr if use.makes for target in use.targets)
        yield Statement(sid="EndClusters", actions=EMR_CLUSTER, resources=made, reason="EMR steps that make a cluster")
    serverless = [use for use in uses if use.type == "EMRServerless"]
    if serverless:
        applications = minimal(target for use in serverless for target in use.targets)
        start, *rest = SERVERLESS_RUN
        yield Statement(sid="RunServerless", actions=(start,), resources=applications, reason="EMRServerless steps")
        yield Statement(
            sid="WatchServerless",
            actions=tuple(rest),
            resources=tuple(f"{application}/jobruns/*" for application in applications),
            reason="EMRServerless steps",
        )
    if any(use.makes for use in serverless):
        yield everywhere(
            "MakeApplications", ("emr-serverless:CreateApplication",), names, "EMRServerless steps that make one"
        )
        made = minimal(target for use in serverless if use.makes for target in use.targets)
        yield Statement(
            sid="EndApplications", actions=SERVERLESS_APPLICATION, resources=made, reason="EMRServerless steps"
        )
