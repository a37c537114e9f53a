"""Runs of a deployed pipeline, as a script reads them, against the service's stand-in."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import drivetrain as dt
from drivetrain.cli.main import run as command_line
from tests.fixtures.kubeflow_pipelines.place import Place
from tests.fixtures.kubeflow_pipelines.server import pipelines_api
from tests.fixtures.s3_server import environment, s3_server, variables
from tests.fixtures.sagemaker_service.playing import Playing
from tests.fixtures.sagemaker_service.server import TestAccount, sagemaker_service

pytestmark = pytest.mark.slow  # starts the stand-in, and imports the service's client
DEFINITION: dict[str, Any] = {
    "Version": "2020-12-01",
    "Parameters": [{"Name": "Rows", "Type": "Integer", "DefaultValue": 1}],
    "Steps": [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}],
}


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestAccount]:
    """An account with the definition deployed as `theirs`."""
    monkeypatch.chdir(tmp_path)
    with sagemaker_service().account() as account:
        (tmp_path / "theirs.json").write_text(json.dumps(DEFINITION))
        place = [
            f"--set=deployment.targets.sagemaker.bucket={account.make_bucket()}",
            f"--set=deployment.targets.sagemaker.role=arn:aws:iam::{account.number}:role/pipelines",
        ]
        assert command_line(["apply", "-d", "theirs.json", "--yes", *place]) == 0
        yield account


def ended(account: TestAccount, run: Any) -> None:
    playing = Playing(account.backend(), run.address)
    playing.begin("stop")
    playing.end("stop", "Failed", FailureReason="no", Metadata={"Fail": {"ErrorMessage": "no"}})
    playing.conclude("Failed", "Step stop failed.")


def test_a_deployed_run_is_started_awaited_and_read(account: TestAccount, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = dt.Deployed("theirs", region="us-east-1")
    assert "us-east-1" in repr(pipeline) and pipeline.runs() == []
    refused: dict[str, Callable[[], object]] = {
        r"start\(name=5\): give a text": lambda: pipeline.start(name=5),  # type: ignore[arg-type]
        r"start\(Rows=\{1\}\): give a text, a number": lambda: pipeline.start(Rows={1}),
        r"run\(id=5\): give a text": lambda: pipeline.run(5),  # type: ignore[arg-type]
        r"runs\(limit='x'\): give a whole number from 1": lambda: pipeline.runs("x"),  # type: ignore[arg-type]
        r"runs\(limit=0\): give a whole number from 1": lambda: pipeline.runs(0),
    }
    for said, asked in refused.items():
        with pytest.raises(dt.UserError, match=said):
            asked()
    run = pipeline.start(name="by-hand", Rows=2)
    assert run.status == "Executing" and not run.succeeded and run.seconds is not None
    playing = threading.Timer(0.2, ended, (account, run))
    playing.start()
    capsys.readouterr()
    assert run.wait() is run and (run.status, run.reason) == ("Failed", "Step stop failed.")
    playing.join()
    assert "stop" in capsys.readouterr().out
    assert run.steps["stop"].status == "Failed" and run.steps["stop"].reason == "no"
    with pytest.raises(KeyError, match="Did you mean 'stop'"):
        run.steps["stp"]
    assert run.facts["status"] == "Failed" and run.started is not None
    assert "Failed" in repr(run) and "<td>stop</td>" in run._repr_html_()
    assert pipeline.run("by-hand").id == pipeline.run().id == pipeline.runs()[0].id == run.id
    with pytest.raises(dt.UserError, match="has ended"):
        run.stop()
    with pytest.raises(dt.UserError, match="it starts no program"):
        run.log("stop")
    assert run.wait(quiet=True).status == "Failed" and capsys.readouterr().out == ""


def test_errors_of_deployed_runs_are_explained(account: TestAccount) -> None:
    pipeline = dt.Deployed("theirs", region="us-east-1")
    with pytest.raises(dt.UserError, match="Rows"):
        pipeline.start(Rows="many")
    with pytest.raises(dt.UserError, match="has not been executed yet"):
        pipeline.run()
    with pytest.raises(dt.UserError, match="There is no pipeline 'other'"):
        dt.Deployed("other", region="us-east-1").runs()
    with pytest.raises(dt.UserError, match="no AWS region"):
        dt.Deployed("theirs", region="mars").runs()
    with pytest.raises(dt.UserError, match="give the name of a pipeline"):
        dt.Deployed(3)  # type: ignore[arg-type]


def test_the_same_calls_work_on_kubeflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KF_PIPELINES_TOKEN", "KF_PIPELINES_SA_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    with pipelines_api() as cluster, environment(variables(s3_server())):
        place = Place(tmp_path / "code", cluster)
        place.apply()
        settings = {f"deployment.targets.kubeflow.{name}": value for name, value in place.settings.items()}
        pipeline = dt.Deployed("nightly", target="kubeflow", settings=settings)
        run = pipeline.start()
        assert run.status == "Executing" and "team-a" in repr(pipeline) and pipeline.run().id == run.id
        cluster.store.advance(run.id, "prepare", "FAILED", log="no rows")
        cluster.store.conclude(run.id)
        assert run.wait(quiet=True).status == "Failed" and "no rows" in str(run.reason)
        assert run.steps["prepare"].status == "Failed" and run.log("prepare") == "no rows"
