"""Training: channels in, /opt/ml/model and /opt/ml/output/data out, checkpoints beside.

The response has the shape of DescribeTrainingJob.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from drivetrain.base import archive
from drivetrain.base.errors import WARNING, UserError
from drivetrain.base.formatting import UNHEALTHY
from drivetrain.base.json_text import object_in, text_in
from drivetrain.run_store.objects import missing, walk
from drivetrain.run_store.statuses import JOB_PREFIX
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs import job_data, model_trainer, notebook_jobs, remote_function
from drivetrain.targets.sagemaker.run.jobs import programs as jobs
from drivetrain.targets.sagemaker.run.jobs.checkpoints import DEFAULT_PATH
from drivetrain.targets.sagemaker.run.jobs.job_data import Publication, entries, member
from drivetrain.targets.sagemaker.run.jobs.logged_metrics import MetricReader
from drivetrain.targets.sagemaker.run.jobs.spot_rules import spot_problems

if TYPE_CHECKING:
    from drivetrain.processes.container import Host, Job
    from drivetrain.targets.sagemaker.run.toolkit import Launch

_MODEL, _OUTPUT = "/opt/ml/model", "/opt/ml/output/data"
_MAX_HEALTH_BYTES, _MAX_HEALTH_CHARACTERS = 4 * 1024 * 1024, 600


def check(step: StepNode, plan: RunPlan) -> list[str]:
    from drivetrain.targets.sagemaker.run import toolkit

    arguments = plan.arguments
    if remote_function.is_one(arguments):
        return [remote_function.refused(step)]
    algorithm = object_in(arguments, "AlgorithmSpecification")
    problems = jobs.problems(step, lambda: job_data.training_channels(arguments), plan)
    if notebook_jobs.is_one(arguments):
        problems += notebook_jobs.problems(step, arguments)
    if model_trainer.is_one(arguments):
        problems += model_trainer.problems(step, plan)
    try:
        MetricReader(entries(algorithm, "MetricDefinitions"), ())
        command = jobs.entry_point(step.name, algorithm, algorithm.get("TrainingImage"), plan.options)
        if command is None:
            if toolkit.is_used(object_in(arguments, "HyperParameters"), jobs.environment_of(arguments)):
                problems += _submit_directory_problems(step, plan)
                if problem := toolkit.unsupported(_strings(object_in(arguments, "HyperParameters"))):
                    problems.append(f"step {step.name!r}: {problem}")
            else:
                problems.append(jobs.nothing_to_start(step.name, algorithm.get("TrainingImage")))
    except UserError as error:
        problems.append(f"step {step.name!r}: {error}")
    output_config = object_in(arguments, "OutputDataConfig")
    if "S3OutputPath" not in output_config:
        problems.append(f"step {step.name!r} has no OutputDataConfig.S3OutputPath.")
    else:
        problems += jobs.uri_problems(f"step {step.name!r}: OutputDataConfig", output_config["S3OutputPath"])
    problems += spot_problems(f"step {step.name!r}", arguments)
    if (checkpoint := member(arguments, "CheckpointConfig")) is not None:
        where = f"step {step.name!r}: CheckpointConfig"
        problems += jobs.uri_problems(where, checkpoint.get("S3Uri"))
        if problem := jobs.path_problem(where, checkpoint.get("LocalPath") or DEFAULT_PATH, "/opt/ml"):
            problems.append(problem)
    return problems + jobs.shape_problems(step, arguments, object_in(arguments, "ResourceConfig"))


def written(arguments: Mapping[str, Any]) -> list[str]:
    """The URIs that the job writes to, as far as they are known: below its output path in a folder of its own name. So
    what others read from beside it (code in a bucket that is the output path) must be there."""
    uri = text_in(object_in(arguments, "OutputDataConfig"), "S3OutputPath")
    outputs = [] if uri is None else [f"{uri.rstrip('/')}/{JOB_PREFIX}*"]
    return [*outputs, *(found for found in destinations(arguments) if found != uri)]


def destinations(arguments: Mapping[str, Any]) -> list[str]:
    """The URIs of the job's outputs and checkpoints, as far as they are known."""
    uri = text_in(object_in(arguments, "OutputDataConfig"), "S3OutputPath")
    checkpoint = text_in(object_in(arguments, "CheckpointConfig"), "S3Uri")
    return [found for found in (uri, checkpoint) if found is not None]


def artifacts_uri(arguments: Mapping[str, Any], job: str, *, what: str = "model") -> str:
    """The URI to which the service writes the model (or, by `what`, the other output) of a training job."""
    config = arguments["OutputDataConfig"]
    packed = config.get("CompressionType", "GZIP") != "NONE"
    return f"{config['S3OutputPath'].rstrip('/')}/{job}/output/{what}" + (".tar.gz" if packed else "/")


def described(context: StepContext) -> dict[str, Any]:
    name = context.facts.job_name(context.step.name)
    found: dict[str, Any] = {
        "TrainingJobName": name,
        "TrainingJobArn": context.facts.arn(f"training-job/{name}"),
        "TrainingJobStatus": "Completed",
    }
    if "S3OutputPath" in object_in(context.arguments, "OutputDataConfig"):
        found["ModelArtifacts"] = {"S3ModelArtifacts": artifacts_uri(context.arguments, name)}
    return found


def run(context: StepContext) -> StepResult:
    return train(context, context.facts.job_name(context.step.name))


def train(context: StepContext, name: str, *, stop_early: Callable[[], bool] | None = None) -> StepResult:
    """Run the training job `name` of the context's arguments; `stop_early` is asked whether it shall end now."""
    from drivetrain.targets.sagemaker.run.jobs.training_job import TrainingJob

    arguments = context.arguments
    created = time.time()
    ran = TrainingJob(context, lambda hosts: _job(context, name, hosts), stop_early=stop_early).run()
    # (Publishing moves the files.)
    said = (ran.value, jobs.logged_warnings(context.logs), _unhealthy(ran.hosts[0]))
    value = "; ".join(filter(None, said)) or None
    publication = _publish(context, name, ran.hosts)
    transitions = ran.transitions.finished()
    ended = time.time()
    response = {
        **arguments,
        "TrainingJobName": name,
        "TrainingJobArn": context.facts.arn(f"training-job/{name}"),
        "TrainingJobStatus": "Stopped" if ran.stopped else "Completed",
        "SecondaryStatus": ran.stopped or "Completed",
        "SecondaryStatusTransitions": transitions,
        "ModelArtifacts": {"S3ModelArtifacts": artifacts_uri(arguments, name)},
        "CreationTime": created,
        "TrainingStartTime": ran.transitions.began("Training"),
        "TrainingEndTime": ended,
        "TrainingTimeInSeconds": max(1, round(ran.trained_s)),
        "BillableTimeInSeconds": max(1, round(ran.worked_s)),
        "FinalMetricDataList": [
            {"MetricName": metric, "Value": value, "Timestamp": ended} for metric, value in ran.metrics.items()
        ],
        **({} if ran.told is None else {"Drivetrain": ran.told}),
    }
    return StepResult(response=response, value=value, publication=publication, inputs=ran.inputs)


def _job(context: StepContext, name: str, hosts: tuple[Host, ...]) -> Job:
    """Build the job that starts on every host."""
    from drivetrain.processes.container import Job
    from drivetrain.processes.mounts import BASE, DEBUG_HOOK

    arguments = context.arguments
    algorithm = arguments["AlgorithmSpecification"]
    told = {"TRAINING_JOB_NAME": name, "TRAINING_JOB_ARN": context.facts.arn(f"training-job/{name}")}
    if arguments.get("DebugHookConfig"):
        # Where smdebug looks by itself, but where /opt/ml is no mount.
        told["SMDEBUG_CONFIG_FILE_PATH"] = f"{BASE}/input/config/{DEBUG_HOOK}"
    environment = jobs.job_environment(context, told)
    command = (
        notebook_jobs.command()
        if notebook_jobs.is_one(arguments)
        else jobs.entry_point(context.step.name, algorithm, algorithm.get("TrainingImage"), context.options)
    )
    working_folder = "/opt/ml"
    if model_trainer.is_one(arguments):
        _adapt_drivers(context, hosts)
    if command is None:
        launches = _toolkit_launches(context, hosts, environment)
        command, working_folder = launches[0].command, launches[0].working_folder  # those of every host
        started = zip(hosts, launches, strict=True)
        hosts = tuple(replace(host, environment=launch.environment) for host, launch in started)
    return Job(
        command=command,
        environment=environment,
        hosts=hosts,
        log_folder=context.logs,
        mode=context.options.mode,
        working_folder=working_folder,
        code=(f"{job_data.TRAINING}/code", "/opt/ml/code"),
    )


def _unhealthy(host: Host) -> str | None:
    """The first health rule that failed a training, as a part of the step's value."""
    from drivetrain.processes.mounts import host_path

    path = host_path(f"{_OUTPUT}/health/health.json", host.root)
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_HEALTH_BYTES:
        return None
    return failed_rule(path.read_bytes())


def failed_rule(given: bytes) -> str | None:
    """`unhealthy: RULE at step 9: what it saw. what to do`, from the health.json that a training wrote; None where no
    rule failed it, or where a program of the user's own wrote something else there."""
    try:
        found: Any = json.loads(given)
        failed = [one for one in found["findings"] if one["action"] in ("fail", "stop")]
        said = [f"{one['rule']} at step {one['step']}: {one['text']}. {one['advice']}" for one in failed]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not said:
        return None
    others = ", ".join(str(one["rule"]) for one in failed[1:])
    more = f" Failed, too: {others}." if others else ""
    return UNHEALTHY + " ".join(f"{said[0].strip()}{more}".split())[:_MAX_HEALTH_CHARACTERS]


def _toolkit_launches(context: StepContext, hosts: tuple[Host, ...], environment: Mapping[str, str]) -> list[Launch]:
    """Prepare what the stock image's toolkit would start, for each host; its notes and warnings go to the log."""
    from drivetrain.targets.sagemaker.run import toolkit

    submitted = toolkit.submit_directory(_strings(object_in(context.arguments, "HyperParameters")))
    source = context.store.path(submitted) if submitted is not None and submitted.startswith("s3://") else None
    if source is not None and not source.exists():
        raise UserError(missing("sagemaker_submit_directory", str(submitted), context.store))
    launches = [toolkit.prepare(host.root, environment, archive=source) for host in hosts]
    notes = [f"note: {note}" for note in launches[0].notes]
    _log(context, hosts[0], [*notes, *(f"{WARNING}{warning}" for warning in launches[0].warnings)])
    return launches


def _adapt_drivers(context: StepContext, hosts: tuple[Host, ...]) -> None:
    from drivetrain.processes import mounts

    names = [host.name for host in hosts]
    is_rewritten = mounts.resolve(context.options.mode) == "none"
    lines = [model_trainer.adapt(host.root, names, is_rewritten=is_rewritten) for host in hosts]
    _log(context, hosts[0], lines[0])


def _log(context: StepContext, host: Host, lines: Sequence[str]) -> None:
    context.logs.mkdir(parents=True, exist_ok=True)
    with open(context.logs / f"{host.name}.log", "a", encoding="utf-8") as log:
        log.writelines(f"{line}\n" for line in lines)


def _publish(context: StepContext, name: str, hosts: tuple[Host, ...]) -> Publication:
    from drivetrain.processes.mounts import host_path

    publication = Publication(context.folder)
    packed = context.arguments["OutputDataConfig"].get("CompressionType", "GZIP") != "NONE"
    roots = {host.name: host.root for host in hosts}
    for what, path in (("model", _MODEL), ("output", _OUTPUT)):
        merged = context.folder / jobs.HOSTS / f"merged-{what}"
        job_data.merge(what, {host.name: host_path(path, host.root) for host in hosts}, roots, merged)
        files = list(walk(merged))
        if what == "output" and not files:
            continue  # the service makes no output.tar.gz of nothing
        staged = publication.stage()
        if packed:
            archive.write(files, staged)
        else:
            merged.rename(staged)
        publication.add(what, artifacts_uri(context.arguments, name, what=what), staged)
    return publication


def _submit_directory_problems(step: StepNode, plan: RunPlan) -> list[str]:
    from drivetrain.targets.sagemaker.run import toolkit

    uri = toolkit.submit_directory(_strings(object_in(plan.arguments, "HyperParameters")))
    if uri is None or not uri.startswith("s3://"):
        return []
    return jobs.input_problems(f"step {step.name!r}: sagemaker_submit_directory", uri, plan)


def _strings(hyperparameters: Mapping[str, Any]) -> dict[str, str]:
    """The values that are known by now."""
    return {name: value for name, value in hyperparameters.items() if isinstance(value, str)}
