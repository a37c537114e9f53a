"""Runs as a person sees them on a standalone Kubeflow Pipelines, through the command line."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from drivetrain.deploying import following
from tests.fixtures.kubeflow_pipelines.command_line import CommandLine
from tests.fixtures.kubeflow_pipelines.server import pipelines_api
from tests.fixtures.s3_server import environment, s3_server, variables

ON = ("--on", "kubeflow", "-p", "nightly", "-c", "nightly.yaml")


@pytest.fixture
def kubeflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Generator[CommandLine]:
    monkeypatch.chdir(tmp_path)
    for name in ("KF_PIPELINES_TOKEN", "KF_PIPELINES_SA_TOKEN_PATH", "DRIVETRAIN_HOME", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    with pipelines_api() as cluster, environment(variables(s3_server())):
        yield CommandLine(tmp_path, cluster, capsys.readouterr)


@pytest.fixture
def run(kubeflow: CommandLine) -> str:
    kubeflow("apply", "nightly.py", "--yes")
    return str(kubeflow.json("start", "nightly", "-c", "nightly.yaml")["execution"])


def test_the_log_of_a_running_pod_is_read_from_the_cluster_and_later_from_storage(
    kubeflow: CommandLine, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = kubeflow.cluster.store
    store.advance(run, "prepare", "RUNNING", log="one\n")
    (pod,) = kubeflow.json("runs", "show", *ON)["steps"][0]["pods"]
    command = f"kubectl -n team-a logs {pod} -c main -f"
    assert command in kubeflow.error("runs", "logs", *ON)
    ends = lambda _: store.advance(run, "prepare", "SUCCEEDED", log="one\ntwo\n")  # noqa: E731
    monkeypatch.setattr(following.time, "sleep", ends)
    assert kubeflow("runs", "logs", "-f", *ON) == "one\ntwo\n"
    assert command in kubeflow.err and len(kubeflow.err.splitlines()) == 1


def test_a_retried_step_and_one_that_never_began(kubeflow: CommandLine, run: str) -> None:
    store = kubeflow.cluster.store
    store.advance(run, "prepare", "ERROR", message="pod deleted", again=True)
    store.advance(run, "prepare", "FAILED", log="reading\nerror: the disk is full\n", attempt=1)
    store.conclude(run)
    text = kubeflow("runs", "show", *ON)
    assert re.search(r"✗ prepare +failed +\S.* s +2 attempts\n– evaluate +not run\n– gate +not run\n", text), text
    assert text.count("prepare: error: the disk is full\n") == 2 and "running" not in text
    assert kubeflow("runs", "logs", *ON) == "reading\nerror: the disk is full\n"
    assert kubeflow.json("runs", "show", *ON)["steps"][0]["attempts"] == 2


def test_a_run_that_is_stopped_twice(kubeflow: CommandLine, run: str) -> None:
    store = kubeflow.cluster.store
    store.advance(run, "prepare", "RUNNING")
    kubeflow("runs", "stop", *ON)
    assert f"Execution {run} is stopping already" in kubeflow.error("runs", "stop", *ON)
    store.conclude(run)
    text = kubeflow("runs", "show", *ON)
    assert "■ nightly stopped in" in text and "■ prepare" in text and "failed" not in text
    assert re.search(rf"■ {run} +stopped", kubeflow("runs", "list", *ON))
    assert f"Execution {run} has ended (Stopped)" in kubeflow.error("runs", "stop", *ON)
    assert "is gone: it ended before its log was kept" in kubeflow.error("runs", "logs", *ON)


def test_a_workflow_above_a_megabyte_is_unpacked(kubeflow: CommandLine, run: str) -> None:
    store = kubeflow.cluster.store
    store.advance(run, "prepare", "RUNNING", log="made 10 rows\n")
    store.packed = True  # from here on the details of its tasks stand still
    store.advance(run, "prepare", "SUCCEEDED", log="made 10 rows\n")
    store.advance(run, "evaluate", "CACHED")
    store.conclude(run, "SUCCEEDED")
    text = kubeflow("runs", "show", *ON)
    assert re.search(r"✓ prepare +succeeded", text) and re.search(r"↺ evaluate +cached", text)
    assert kubeflow("runs", "logs", "latest", "prepare", *ON) == "made 10 rows\n"


def test_runs_that_the_server_has_deleted(kubeflow: CommandLine, run: str) -> None:
    store = kubeflow.cluster.store
    second = str(kubeflow.json("start", "nightly", "-c", "nightly.yaml")["execution"])
    del store.runs[second]
    assert kubeflow.json("runs", "show", *ON)["execution"] == run
    assert [each["execution"] for each in kubeflow.json("runs", "list", *ON)] == [run]
    assert f"No execution '{second}' of 'nightly'" in kubeflow.error("runs", "show", second, *ON)
    del store.runs[run]
    assert "has not been executed yet" in kubeflow.error("runs", "show", *ON)
    assert "has not been executed yet" in kubeflow("runs", "list", *ON)
