"""Transform: a model answers every record of the input; each input file gives one output file, `<name>.out`.

The model's own code serves it, or the command that is given for its image (batch_transform/containers.py). One server
answers one request after the other, whatever InstanceCount and MaxConcurrentTransforms say: they change how long it
takes, not what comes out. The response has the shape of DescribeTransformJob.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in, text_in
from drivetrain.base.masking import contains_mask
from drivetrain.processes.container import Job
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.schema import ArtifactEntry
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.document.expressions import references
from drivetrain.targets.sagemaker.run.batch_transform import account_models, inputs, settings
from drivetrain.targets.sagemaker.run.batch_transform.containers import (
    Serving,
    containers,
    folder_of,
    from_package,
    problems,
    serving,
)
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs import programs as jobs
from drivetrain.targets.sagemaker.run.jobs.job_data import Publication

_DRIVER = "drivetrain.targets.sagemaker.run.batch_transform.driver"
_MODEL_FIELDS = ("PrimaryContainer", "Containers")


def check(step: StepNode, plan: RunPlan) -> list[str]:
    arguments, where = plan.arguments, f"step {step.name!r}"
    found = [f"{where}: {problem}" for problem in settings.problems(arguments)]
    found += inputs.problems(where, arguments, plan)
    found += jobs.uri_problems(f"{where}: S3OutputPath", object_in(arguments, "TransformOutput").get("S3OutputPath"))
    found += jobs.shape_problems(step, arguments, object_in(arguments, "TransformResources"))
    stub = f"; or its results with --stub {step.name}=outputs.json."
    model = _planned_model(plan)
    if model is None:
        named = arguments.get("ModelName")
        found.append(
            f"{where}: ModelName {json.dumps(named):.120} is no model of this definition. Allowed on this machine: "
            f"that of a Model step; {_given(named)}{stub}"
        )
        return found
    try:
        found += [f"{where}: {each}{stub}" for each in problems(model, plan)]
    except UserError as error:
        found.append(f"{where}: {error}")
    return found


def written(arguments: Mapping[str, Any]) -> list[str]:
    uri = text_in(object_in(arguments, "TransformOutput"), "S3OutputPath")
    return [] if uri is None else [uri]


def described(context: StepContext) -> dict[str, Any]:
    name = context.facts.job_name(context.step.name)
    now = time.time()
    return {
        "TransformJobName": name,
        "TransformJobArn": context.facts.arn(f"transform-job/{name}"),
        "TransformJobStatus": "Completed",
        "CreationTime": now,
        "TransformStartTime": now,
        "TransformEndTime": now,
    }


def run(context: StepContext) -> StepResult:
    arguments = context.arguments
    if found := list(settings.problems(arguments)):  # of what was not known before the run
        raise UserError("; ".join(found))
    response = {**arguments, **described(context)}
    [host] = jobs.hosts(context, 1)
    model: list[ArtifactEntry] = []
    servers: list[Serving] = []
    found_containers = _containers(context)
    for number, container in enumerate(found_containers):
        folder = folder_of(number, len(found_containers))
        suffix = f"-{number}" if folder else ""
        model += inputs.bring_model(context, container, host.root / folder, suffix)
        servers.append(serving(container, host.root, folder, context.options))
    data, files = inputs.bring_data(context, host.root)
    told = [{"command": server.command, "environment": server.environment} for server in servers]
    (host.root / inputs.OUTPUT).mkdir(parents=True)
    (host.root / "output").mkdir(exist_ok=True)
    plan = {"servers": told, "arguments": arguments, "files": files}
    (host.root / inputs.PLAN).write_text(json.dumps(plan), encoding="utf-8")
    context.logs.mkdir(parents=True, exist_ok=True)
    notes = [note for server in servers for note in server.notes]
    if "DataCaptureConfig" in arguments:
        notes.append("DataCaptureConfig is not imitated here.")
    (context.logs / f"{host.name}.log").write_text("".join(f"note: {note}\n" for note in notes), encoding="utf-8")
    started = time.time()
    job = Job(
        command=(sys.executable, "-P", "-m", _DRIVER, "/opt/ml"),
        environment=_environment(context),
        hosts=(host,),
        log_folder=context.logs,
        mode=context.options.mode,
        code=tuple(f"/opt/ml/{name}" for name in ("model/code", "code", "containers")),
    )
    context.run_job(job)

    publication = Publication(context.folder)
    staged = publication.stage()
    (host.root / inputs.OUTPUT).rename(staged)
    publication.add("output", arguments["TransformOutput"]["S3OutputPath"], staged)
    response |= {"TransformStartTime": started, "TransformEndTime": time.time()}
    requests = (host.root / inputs.REQUESTS).read_text(encoding="utf-8")
    return StepResult(
        response=response,
        value=f"{len(files)} file{'s' * (len(files) != 1)}, {requests} request{'s' * (requests != '1')}",
        publication=publication,
        inputs=(*model, data),
    )


def _environment(context: StepContext) -> dict[str, str]:
    """The job's variables, and those that tell a container of a batch transform."""
    arguments = context.arguments
    told = {"SAGEMAKER_BATCH": "true"}
    if arguments.get("MaxPayloadInMB") is not None:
        told["SAGEMAKER_MAX_PAYLOAD_IN_MB"] = str(arguments["MaxPayloadInMB"])
    if arguments.get("BatchStrategy"):
        told["SAGEMAKER_BATCH_STRATEGY"] = (
            "SINGLE_RECORD" if arguments["BatchStrategy"] == "SingleRecord" else "MULTI_RECORD"
        )
    if arguments.get("MaxConcurrentTransforms") is not None:
        told["SAGEMAKER_MAX_CONCURRENT_TRANSFORMS"] = str(arguments["MaxConcurrentTransforms"])
    return {**jobs.job_environment(context), **told}


def _planned_model(plan: RunPlan) -> Mapping[str, Any] | None:
    """The arguments of the Model step that makes the model, as far as they are known."""
    name = plan.arguments.get("ModelName")
    models = {step: given for step, given in plan.others.items() if any(field in given for field in _MODEL_FIELDS)}
    if isinstance(name, dict):
        steps = [get.step for get in references(name) if get.step]
        return next((models[step] for step in steps if step in models), None)
    of_a_step = (given for given in models.values() if given.get("ModelName") == name and name is not None)
    return next(of_a_step, None) or account_models.model_of(name, plan.store)


def _given(name: Any) -> str:
    """How to give a model of the account."""
    return f"one of the account, given by --data model/{name if isinstance(name, str) else 'NAME'}=FOLDER"


def _containers(context: StepContext) -> list[Mapping[str, Any]]:
    """The containers of the model that a Model step of this execution made.

    Raises:
        UserError: there is no such model, or one that a batch transform does not take.
    """
    name = context.arguments.get("ModelName")
    for row in context.ledger.steps(context.facts.id):
        if row.type == "Model" and row.response.get("ModelName") == name:
            found = containers(row.response)
            if contains_mask(found):
                raise UserError(
                    f"model {name!r} has a variable that is kept nowhere, since it looks like a secret. Give "
                    "it to the Transform step (Environment)."
                )
            registry = LocalRegistry(context.home.ledger, region=context.facts.region)
            return [from_package(container, registry) for container in found]
    if (model := account_models.model_of(name, context.store)) is not None:
        return containers(model)
    raise UserError(f"there is no model {name!r} in this run. Make it with a Model step, or give {_given(name)}.")
