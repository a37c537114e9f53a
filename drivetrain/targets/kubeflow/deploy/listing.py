"""List the pipelines of a namespace: each with its state and its last execution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from drivetrain.deploying.runs import Listed
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.deployed import mark_of, version
from drivetrain.targets.kubeflow.deploy.executions.executions import execution, runs_in
from drivetrain.targets.kubeflow.deploy.rest import Api
from drivetrain.targets.kubeflow.deploy.service import seconds

HINTS: Mapping[str, str] = {
    "edited": "Others uploaded a version since the last apply; to see what it changes: drivetrain plan NAME",
    "being applied": "Apply is at work, or was cut short; applying again ends it: drivetrain apply NAME",
    "not ours": "Not made by drivetrain; to take one over: drivetrain apply NAME --discard all",
}


def deployed_pipelines(api: Api, limit: int, experiment: str | None = None) -> Iterator[Listed]:
    """The pipelines of the namespace, by name: three calls for each.

    Args:
        experiment: to which executions belong; one of each pipeline's name unless given.
    """
    for said in islice(service.pipelines(api), limit):
        id, name = str(said["pipeline_id"]), str(said.get("display_name") or said.get("name"))
        newest = next((version(each) for each in service.versions(api, id, name)), None)
        if newest is not None and newest.sha256:
            state = "as applied"
        elif mark_of(said) is None:
            state = "not ours"
        else:
            state = "being applied" if newest is None else "edited"
        last = next((execution(name, run).summary() for run in runs_in(api, name, id, experiment or name)), None)
        modified = newest.created if newest is not None else seconds(said.get("created_at"))
        yield Listed(name, {"id": id}, state, modified, newest and newest.sha256, last)
