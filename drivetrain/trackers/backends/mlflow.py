"""MLflow: a run of an experiment, at a tracking server or in a database (`sqlite:///mlflow.db`).

Parameters, metrics over the training's step, the run's page and outputs as artifacts; the tags `drivetrain.run` and
`drivetrain.page` lead back. A resumed run goes on in the same run of MLflow. User and password belong into
$MLFLOW_TRACKING_USERNAME and $MLFLOW_TRACKING_PASSWORD.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import field_validator

from drivetrain.trackers.tracker import Point, TrackedRun, TrackerSettings, plain_name

PACKAGE = "mlflow"
# Bounds of one request: MLflow's own take more than four minutes.
HTTP_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
_STATUS = {"Succeeded": "FINISHED", "CompletedWithFailures": "FINISHED", "Failed": "FAILED"}
# Limits of a batch, and of a parameter's value (https://mlflow.org/docs/latest/api_reference/rest-api.html#log-batch).
_METRICS, _PARAMETERS, _CHARACTERS = 1000, 100, 6000


class Settings(TrackerSettings):
    """Settings of the tracker MLflow."""

    uri: str
    experiment: str = "drivetrain"

    @field_validator("uri")
    @classmethod
    def _without_password(cls, uri: str) -> str:
        if urlsplit(uri).password:
            raise ValueError("it holds a password, which would be kept with the run; set $MLFLOW_TRACKING_PASSWORD")
        if uri.startswith("sqlite:///") and not uri.startswith("sqlite:////"):
            return f"sqlite:///{Path(uri.removeprefix('sqlite:///')).absolute()}"
        return uri


def connect(settings: Settings, run: TrackedRun, earlier: str | None) -> MlflowRun:
    """A run of MLflow's, or the earlier one."""
    for name, value in HTTP_SETTINGS.items():
        os.environ.setdefault(name, value)
    from mlflow.tracking import MlflowClient

    return MlflowRun(MlflowClient(tracking_uri=settings.uri), settings, run, earlier)


class MlflowRun:
    """One run in MLflow."""

    def __init__(self, client: Any, settings: Settings, run: TrackedRun, earlier: str | None) -> None:
        self._client = client
        if earlier is None:
            found = client.get_experiment_by_name(settings.experiment)
            experiment = client.create_experiment(settings.experiment) if found is None else found.experiment_id
            tags = {
                **run.tags,
                "drivetrain.run": run.id,
                "drivetrain.pipeline": run.pipeline,
                "drivetrain.page": str(run.page),
                "mlflow.source.name": run.pipeline,
            }
            made = client.create_run(
                experiment,
                start_time=round(run.started * 1000),
                tags=tags,
                run_name=run.name or f"{run.pipeline}-{run.id}",
            )
            earlier = str(made.info.run_id)
        else:
            client.update_run(earlier, status="RUNNING")
        self.id = earlier
        experiment = client.get_run(self.id).info.experiment_id
        served = settings.uri.startswith(("http://", "https://"))
        self.url = f"{settings.uri.rstrip('/')}/#/experiments/{experiment}/runs/{self.id}" if served else settings.uri

    def parameters(self, values: Mapping[str, str]) -> None:
        from mlflow.entities import Param, RunTag

        # A parameter of MLflow never changes: what a resumed run was given otherwise is a tag.
        there = self._client.get_run(self.id).data.params
        given = {plain_name(name): text[:_CHARACTERS] for name, text in values.items()}
        new = [Param(name, text) for name, text in given.items() if name not in there]
        for first in range(0, len(new), _PARAMETERS):
            self._client.log_batch(self.id, params=new[first : first + _PARAMETERS])
        changed = [RunTag(f"resumed.{name}", text) for name, text in given.items() if there.get(name, text) != text]
        if changed:
            self._client.log_batch(self.id, tags=changed)

    def metrics(self, points: Sequence[Point]) -> None:
        from mlflow.entities import Metric

        made = [
            Metric(plain_name(f"{one.step}/{one.name}"), one.value, round(one.time * 1000), one.position)
            for one in points
        ]
        for first in range(0, len(made), _METRICS):
            self._client.log_batch(self.id, metrics=made[first : first + _METRICS])

    def results(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._client.log_metric(self.id, plain_name(name), value)

    def artifact(self, name: str, path: Path) -> None:
        if path.is_dir():
            self._client.log_artifacts(self.id, str(path), name)
        else:
            self._client.log_artifact(self.id, str(path), name.rpartition("/")[0] or None)

    def end(self, status: str) -> None:
        self._client.set_terminated(self.id, _STATUS.get(status, "KILLED"))
