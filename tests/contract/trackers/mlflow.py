"""A place for MLflow: its own server over an empty SQLite file, read back by its own client."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from drivetrain.run_store.told import Told
from tests.contract.trackers.seen import Seen
from tests.fixtures.failing_proxy import closed_port
from tests.fixtures.mlflow_server import VARIABLES, mlflow_server, new_database

WRONG = ({"uri": "http://somebody:secret@127.0.0.1:5000"}, "MLFLOW_TRACKING_PASSWORD")


@contextmanager
def place(folder: Path) -> Generator[Mapping[str, Any]]:
    artifacts = folder / "artifacts"
    with (
        mlflow_server(new_database(folder), artifacts) as address,
        mock.patch.dict("os.environ", {**VARIABLES, "MLFLOW_DEFAULT_ARTIFACT_ROOT": str(artifacts)}),
    ):
        yield {"uri": address, "experiment": "shop"}


def away(folder: Path) -> Mapping[str, Any]:
    return {"uri": f"http://127.0.0.1:{closed_port()}"}


def read(settings: Mapping[str, Any], told: Told) -> Seen:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(settings["uri"])
    (experiment,) = [one for one in client.search_experiments() if one.name == "shop"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_id == told.id and told.url.endswith(f"/runs/{told.id}")
    logged = {name: client.get_metric_history(told.id, name) for name in run.data.metrics if "/" in name}
    found: set[str] = set()
    folders = [""]
    while folders:
        for one in client.list_artifacts(told.id, folders.pop() or None):
            (folders.append if one.is_dir else found.add)(one.path)
    return Seen(
        parameters={name.removeprefix("resumed."): text for name, text in {**run.data.tags, **run.data.params}.items()},
        resumed={name.removeprefix("resumed."): text for name, text in run.data.tags.items() if "resumed." in name},
        metrics={name: sorted((one.step, one.value) for one in values) for name, values in logged.items()},
        results={name: value for name, value in run.data.metrics.items() if "/" not in name},
        artifacts=frozenset(found),
        run=run.data.tags["drivetrain.run"],
        page=run.data.tags["drivetrain.page"],
        succeeded={"FINISHED": True, "FAILED": False, "KILLED": False}.get(run.info.status),
    )
