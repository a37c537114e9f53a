"""Executions of a deployed pipeline: the platform's runs, found, described, stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.deploying.runs import RemoteRun
from drivetrain.run_store.model import GOING
from drivetrain.run_store.reasons import first_failure
from drivetrain.targets.fresh import is_fresh
from drivetrain.targets.kubeflow.deploy import deployed as reading
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.deployed import Deployed, mark_of, version
from drivetrain.targets.kubeflow.deploy.executions.steps import PodStep, planned, seen_in_details, step_runs
from drivetrain.targets.kubeflow.deploy.executions.workflow import Workflow, read_workflow
from drivetrain.targets.kubeflow.deploy.rest import Api, ApiError
from drivetrain.targets.kubeflow.deploy.service import part, seconds

Json = dict[str, Any]
Explained = Callable[[str, tuple[PodStep, ...]], tuple[PodStep, ...]]
_STATUSES = {"SUCCEEDED": "Succeeded", "FAILED": "Failed", "CANCELED": "Stopped", "CANCELING": "Stopping"}
_STATUSES["SKIPPED"] = "Succeeded"
NO_STEPS = "This version of Kubeflow Pipelines does not list steps."
NO_VERSION = "The version that it ran is deleted, and with it the names of its steps."
NO_WORKFLOW = (
    "The server does not give the Workflow of this run (/apis/v1beta1/runs/ID). So attempts, logs, reasons, and what "
    "came from the cache are not known."
)


def status_of(run: Mapping[str, Any]) -> str:
    """A run's state in the words of a local run. One that was asked to end ends as FAILED."""
    status = _STATUSES.get(str(run.get("state") or ""), "Executing")
    return "Stopped" if status == "Failed" and stopped_at(run) is not None else status


def stopped_at(run: Mapping[str, Any]) -> float | None:
    """When a run was asked to end, in seconds since the epoch."""
    history: Sequence[Json] = run.get("state_history") or ()
    return next((seconds(each.get("update_time")) for each in history if each.get("state") == "CANCELING"), None)


def is_of(run: Mapping[str, Any], name: str, pipeline_id: str | None) -> bool:
    """Return True if a run belongs to the pipeline: by the pipeline's id or else (such as for a pipeline that is gone)
    by the mark of what started it here."""
    reference: Json = part(run, "pipeline_version_reference")
    if pipeline_id is not None and reference.get("pipeline_id") == pipeline_id:
        return True
    return (mark_of(run) or {}).get("pipeline") == name


def required(api: Api, name: str) -> Deployed:
    """Read what is deployed of a pipeline, without its recurring runs.

    Raises:
        UserError: nothing is.
    """
    there = reading.read(api, name, recurring=False)
    if there is not None and there.newest is None:
        raise UserError(
            f"Pipeline {name!r} in namespace {api.namespace!r} has no version: an apply is at work, or was cut short. "
            "Apply it again."
        )
    if there is None:
        raise UserError(
            f"There is no pipeline {name!r} in namespace {api.namespace!r} at {api.endpoint}. Those that are there: "
            f"drivetrain list --deployed --target kubeflow --set deployment.targets.kubeflow.endpoint={api.endpoint} "
            f"--set deployment.targets.kubeflow.namespace={api.namespace}"
        )
    return there


def runs_of(api: Api, name: str, experiment: str) -> Iterator[Json]:
    """The runs of a deployed pipeline, the newest first.

    Raises:
        UserError: there is no such pipeline.
    """
    return runs_in(api, name, required(api, name).id, experiment)


def runs_in(api: Api, name: str, pipeline_id: str, experiment: str) -> Iterator[Json]:
    """The runs of a pipeline in an experiment, the newest first; none where there is no such experiment."""
    found = service.find_experiment(api, experiment)
    runs = () if found is None else service.runs(api, str(found["experiment_id"]))
    return (run for run in runs if is_of(run, name, pipeline_id))


def executions(api: Api, name: str, experiment: str, limit: int | None = None) -> list[RemoteRun]:
    """The newest first, without their steps."""
    return [execution(name, run) for run in islice(runs_of(api, name, experiment), limit)]


def execution(name: str, run: Mapping[str, Any]) -> RemoteRun:
    """A run as the API says it, without its steps."""
    status = status_of(run)
    return RemoteRun(
        id=str(run["run_id"]),
        pipeline=name,
        status=status,
        name=run.get("display_name"),
        started=seconds(run.get("created_at")) or 0.0,
        ended=None if status in GOING else seconds(run.get("finished_at")),
        reason=part(run, "error").get("message") or None,
        fresh=is_fresh(part(part(run, "runtime_config"), "parameters")),
    )


def describe(api: Api, name: str, id: str, explained: Explained | None = None) -> RemoteRun:
    """An execution with its steps.

    Args:
        explained: adds to the steps of a run (by its id) what their programs say of failures.
    """
    run = service.get_run(api, id)
    found = execution(name, run)
    reference: Json = part(run, "pipeline_version_reference")
    spec, called = part(run, "pipeline_spec"), None
    if reference.get("pipeline_version_id") and reference.get("pipeline_id"):
        try:
            started = version(service.get_version(api, reference["pipeline_id"], reference["pipeline_version_id"]))
            spec, called = started.spec, started.name
        except service.AbsentError:
            called = None  # it is deleted, and with it the names of the steps
    # After the run: its end and the Workflow's are written together, those of task details seconds later.
    workflow = read_workflow(service.get_workflow(api, id) or {})
    details: Sequence[Json] = part(run, "run_details").get("task_details") or ()
    seen = workflow.steps if workflow else seen_in_details(details)
    ended = None if found.is_going else found.status
    is_known = workflow is not None or bool(details)
    steps = tuple(step_runs(spec, seen, ended=ended, stopped=stopped_at(run))) if is_known else ()
    if explained is not None:
        steps = explained(id, steps)
    return replace(
        found,
        version=called,
        reason=found.reason or (_reason(steps, workflow) if ended == "Failed" else None),
        steps=steps,
        planned=tuple(planned(spec)),
        note=_note(found, spec, steps, details, workflow),
    )


def _note(
    found: RemoteRun,
    spec: Mapping[str, Any],
    steps: Sequence[PodStep],
    details: Sequence[Json],
    workflow: Workflow | None,
) -> str | None:
    """The gaps in what is known of a run; else the pod of the platform for which it waits, where no step runs."""
    if workflow is None:
        return NO_WORKFLOW if details else None if found.is_going else NO_STEPS
    if not spec:
        return NO_VERSION
    waits = found.is_going and not any(each.status == "Executing" for each in steps)
    return workflow.pending if waits else None


def _reason(steps: Sequence[PodStep], workflow: Workflow | None) -> str | None:
    """Why a run failed: the first step of its own that did, and how many more; else the pod of the platform."""
    failed = [each for each in steps if each.status == "Failed" and each.reason]
    if not failed:
        return workflow and workflow.failure
    return first_failure(failed[0].name, str(failed[0].reason).splitlines()[-1], len(failed))


def stop(api: Api, id: str) -> None:
    """Ask it to end.

    Raises:
        UserError: it has ended, or is stopping already.
    """
    _refuse_to_stop(id, status_of(service.get_run(api, id)))
    try:
        service.terminate_run(api, id)
    except ApiError as error:
        if error.status == 400:  # "Row not found": another user was quicker, or it has just ended
            _refuse_to_stop(id, status_of(service.get_run(api, id)))
        raise


def _refuse_to_stop(id: str, status: str) -> None:
    if status == "Stopping":
        raise UserError(f"Execution {id} is stopping already. Wait for its end.")
    if status not in GOING:
        raise UserError(f"Execution {id} has ended ({status}); there is nothing to stop.")
