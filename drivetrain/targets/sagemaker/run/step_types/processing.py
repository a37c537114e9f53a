"""Processing: named inputs and outputs below /opt/ml/processing.

The response has the shape of DescribeProcessingJob.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.assets.image import SPARK_SUBMIT
from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in, text_in
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs import job_data
from drivetrain.targets.sagemaker.run.jobs import programs as jobs
from drivetrain.targets.sagemaker.run.jobs.job_data import Publication, entries, member, merge

_OUTPUTS = "/opt/ml/processing"


def check(step: StepNode, plan: RunPlan) -> list[str]:
    app = object_in(plan.arguments, "AppSpecification")
    problems = [
        *jobs.problems(step, lambda: job_data.processing_channels(plan.arguments), plan),
        *_output_problems(step, plan.arguments),
        *jobs.shape_problems(step, plan.arguments, _resources(plan.arguments)),
    ]
    image = app.get("ImageUri")
    try:
        command = jobs.entry_point(step.name, app, image, plan.options)
        if command is None:
            problems.append(jobs.nothing_to_start(step.name, image))
        elif SPARK_SUBMIT in command:
            from drivetrain.targets.sagemaker.run.spark import here as spark

            problems += filter(None, [spark.problem(step.name) if spark.is_needed(command) else None])
    except UserError as error:
        problems.append(str(error))
    return problems


def written(arguments: Mapping[str, Any]) -> list[str]:
    """The URIs that the job writes to, as far as they are known."""
    outputs = entries(object_in(arguments, "ProcessingOutputConfig"), "Outputs")
    found = [text_in(object_in(output, "S3Output"), "S3Uri") for output in outputs]
    return [uri for uri in found if uri is not None]


def described(context: StepContext) -> dict[str, Any]:
    name = context.facts.job_name(context.step.name)
    return {
        "ProcessingJobName": name,
        "ProcessingJobArn": context.facts.arn(f"processing-job/{name}"),
        "ProcessingJobStatus": "Completed",
    }


def run(context: StepContext) -> StepResult:
    from drivetrain.processes import container
    from drivetrain.processes.container import Job
    from drivetrain.processes.mounts import host_path

    arguments, name = context.arguments, context.facts.job_name(context.step.name)
    response: dict[str, Any] = {
        **arguments,
        "ProcessingJobName": name,
        "ProcessingJobArn": context.facts.arn(f"processing-job/{name}"),
    }
    if problems := _output_problems(context.step, arguments):  # of what was not known before the run
        raise UserError("; ".join(problems))
    outputs = entries(object_in(arguments, "ProcessingOutputConfig"), "Outputs")
    resources = _resources(arguments)
    hosts = jobs.hosts(context, jobs.host_count(context.step.name, resources))
    cluster = container.Cluster(tuple(host.name for host in hosts), jobs.instance_type(resources))
    for host in hosts:
        container.lay_out_processing(
            host.root,
            cluster,
            host.name,
            job=response,
            output_paths=[output["S3Output"]["LocalPath"] for output in outputs],
        )
    inputs = job_data.processing_channels(arguments)
    read = jobs.bring_inputs(context, inputs, hosts)
    app = arguments["AppSpecification"]
    command = jobs.entry_point(context.step.name, app, app.get("ImageUri"), context.options)
    assert command is not None, "checked before the run"
    started = time.time()
    job = Job(
        command=command,
        environment=jobs.job_environment(context, _of_the_image(context, command)),
        hosts=hosts,
        log_folder=context.logs,
        time_limit_s=jobs.time_limit_s(arguments),
        mode=context.options.mode,
        code=tuple(channel.local_path or "" for channel in inputs if channel.name == "code"),
    )
    context.run_job(job)

    publication = Publication(context.folder)
    for output in outputs:
        target = publication.stage()
        local_path = output["S3Output"]["LocalPath"]
        folders = {host.name: host_path(local_path, host.root) for host in hosts}
        merge(output["OutputName"], folders, {host.name: host.root for host in hosts}, target)
        publication.add(output["OutputName"], output["S3Output"]["S3Uri"], target)
    response |= {
        "ProcessingJobStatus": "Completed",
        "CreationTime": started,
        "ProcessingStartTime": started,
        "ProcessingEndTime": time.time(),
    }
    return StepResult(response=response, value=jobs.logged_warnings(context.logs), publication=publication, inputs=read)


def _of_the_image(context: StepContext, command: Sequence[str]) -> dict[str, str]:
    """Variables that a job finds by what its image has."""
    if SPARK_SUBMIT not in command:
        return {}
    from drivetrain.targets.sagemaker.run.spark.here import with_smspark

    return with_smspark(context, command)


def _resources(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return object_in(object_in(arguments, "ProcessingResources"), "ClusterConfig")


def _output_problems(step: StepNode, arguments: Mapping[str, Any]) -> list[str]:
    problems: list[str] = []
    names: set[str] = set()
    try:
        outputs = entries(object_in(arguments, "ProcessingOutputConfig"), "Outputs")
    except UserError as error:
        return [f"step {step.name!r}: {error}"]
    for output in outputs:
        name = output.get("OutputName")
        where = f"step {step.name!r}: output {name!r}"
        if not isinstance(name, str) or name in names:
            problems.append(f"{where}: OutputName is missing or given twice.")
            continue
        names.add(name)
        destination = member(output, "S3Output")
        if destination is None:
            problems.append(f"{where} has no S3Output. Allowed on this machine: S3Output with S3Uri and LocalPath.")
            continue
        if problem := jobs.path_problem(where, destination.get("LocalPath"), _OUTPUTS):
            problems.append(problem)
        problems += jobs.uri_problems(where, destination.get("S3Uri"))
    return problems
