"""The whole life of a pipeline on Kubeflow, through the command line alone, against a stand-in of the Pipelines API
that holds each request against the official client's models, and S3-compatible storage on this machine."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.deploying import following
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import open_registry
from drivetrain.targets.kubeflow.deploy.starter import State
from tests.fixtures.failing_proxy import closed_port
from tests.fixtures.kubeflow_pipelines.command_line import CommandLine
from tests.fixtures.kubeflow_pipelines.server import pipelines_api
from tests.fixtures.kubeflow_server import kubeflow_server
from tests.fixtures.s3_server import environment, s3_server, variables

ON = ("--on", "kubeflow", "-p", "nightly.py")
NOTHING: dict[str, Any] = {name: [] for name in ("pipelines", "versions", "experiments", "recurring", "runs")}


@pytest.fixture
def kubeflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Generator[CommandLine]:
    monkeypatch.chdir(tmp_path)
    for name in ("KF_PIPELINES_TOKEN", "KF_PIPELINES_SA_TOKEN_PATH", "DRIVETRAIN_HOME", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    with pipelines_api(multi_user=True) as cluster, environment(variables(s3_server())):
        yield CommandLine(tmp_path, cluster, capsys.readouterr)


@pytest.mark.slow
def test_the_whole_life(kubeflow: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    store = kubeflow.cluster.store
    # A new pipeline: planned, kept, applied from the file. Planning writes nothing.
    text = kubeflow("plan", "nightly.py", "--out", "plan.json")
    assert "+ pipeline 'nightly' in namespace team-a" in text and "4 steps, 2 parameters" in text
    assert (
        "+ version 1-" in text and "+ schedule 'daily'\n    cron 0 0 2 ? * 1-5" in text and "objects in s3://" in text
    )
    assert store.left() == NOTHING and kubeflow.objects() == [] and kubeflow.cluster.wrote() == []
    text = kubeflow("apply", "--plan", "plan.json")
    assert "Applied: pipeline 'nightly' in namespace team-a" in text
    assert "Start it: drivetrain start nightly.py\n" in text
    assert store.left() == {
        "pipelines": ["nightly"],
        "versions": [next(iter(store.versions.values()))["name"]],
        "experiments": ["nightly"],
        "recurring": ["nightly-daily"],
        "runs": [],
    }
    (daily,) = store.recurring.values()
    assert daily["max_concurrency"] == "1" and daily["no_catchup"] and daily["status"] == "ENABLED"
    assert daily["runtime_config"]["parameters"] == {"MinAccuracy": 0.95}
    made = kubeflow.objects()
    assert len(made) == 5 and {key.split("/")[2] for key in made} == {"code", "owner"}

    # Planned again there is nothing to do, and applying writes nothing.
    assert kubeflow("plan", "nightly.py", "--exit-code").startswith("Nothing to do: pipeline 'nightly'")
    wrote = kubeflow.cluster.wrote()
    kubeflow("apply", "nightly.py", "--yes")
    assert kubeflow.json("apply", "nightly.py", "--yes")["action"] == "none"
    assert kubeflow.cluster.wrote() == wrote and kubeflow.objects() == made
    kubeflow.error("apply", "--plan", "plan.json")
    assert "The plan is stale" in kubeflow.err

    # It is executed, watched, and its log is read.
    started = kubeflow.json("start", "nightly.py", "--param", "MinAccuracy=0.5", "--name", "by-hand")
    run = started["execution"]
    assert store.runs[run]["runtime_config"]["parameters"] == {"MinAccuracy": 0.5}
    store.advance(run, "prepare", "RUNNING", log="reading\n")
    assert kubeflow("runs", "logs", "latest", "prepare", *ON) == "reading\n"
    (line,) = kubeflow("runs", "logs", "latest", "prepare", "--json", *ON).splitlines()
    assert json.loads(line)["text"] == "reading"
    store.advance(run, "prepare", "SUCCEEDED", seconds=75)
    store.advance(run, "evaluate", "CACHED")
    text = kubeflow("runs", "show", *ON)
    assert "● nightly running since" in text and "✓ prepare" in text and "1 min 15 s" in text and "↺ evaluate" in text
    advice = f"stop it: drivetrain runs stop {run} --on kubeflow -p nightly.py -c nightly.yaml"
    assert advice in kubeflow.error("destroy", "nightly.py", "--yes", "-c", "nightly.yaml")
    # It has switched the schedule off; somebody thinks better of it.
    assert store.recurring[daily["recurring_run_id"]]["status"] == "DISABLED"
    store.recurring[daily["recurring_run_id"]] |= {"mode": "ENABLE", "status": "ENABLED"}
    text = kubeflow("runs", "stop", run, "-p", "nightly", "-c", "nightly.yaml")
    assert text.endswith(f"drivetrain runs show {run} --on kubeflow -p nightly -c nightly.yaml --follow\n")
    assert store.runs[run]["state"] == "CANCELING"
    monkeypatch.setattr(following.time, "sleep", lambda seconds: store.conclude(run))
    kubeflow("runs", "show", "--follow", *ON, code=130)
    assert "has ended (Stopped)" in kubeflow.error("runs", "stop", *ON)
    assert "■" in kubeflow("runs", "list", *ON)
    advice = "Those that are there: drivetrain runs list --on kubeflow -p nightly -c nightly.yaml"
    assert advice in kubeflow.error("runs", "show", "none", "-p", "nightly", "-c", "nightly.yaml")

    # The code changes: the plan says what, the schedule starts the new version, and nothing is left of the old one.
    changed = ("--set", "rows=20", "--set", "cron=30 4 * * ? *")
    text = kubeflow("plan", "nightly.py", *changed)
    assert "prepare: --rows 10 -> 20" in text and "+ version 2-" in text
    assert "~ schedule 'daily'\n    cron 0 0 2 ? * 1-5 -> cron 0 30 4 * * ?" in text
    kubeflow("apply", "nightly.py", "--yes", *changed)
    (after,) = store.recurring.values()
    assert after["recurring_run_id"] != daily["recurring_run_id"]
    assert after["trigger"] == {"cron_schedule": {"cron": "0 30 4 * * ?"}}
    newest = max(store.versions.values(), key=lambda each: each["created_at"])
    assert after["pipeline_version_reference"]["pipeline_version_id"] == newest["pipeline_version_id"]
    assert kubeflow.json("plan", "nightly.py", *changed)["action"] == "none"
    assert kubeflow.json("list", "--deployed", "-c", "nightly.yaml")[0]["state"] == "as applied"

    # Going back is a version of its own: the newest is what runs.
    kubeflow("apply", "nightly.py", "--yes")
    assert sorted(name.partition("-")[0] for name in store.left()["versions"]) == ["1", "2", "3"]
    assert kubeflow.json("plan", "nightly.py")["action"] == "none"

    # A second schedule comes and all go, by the declaration.
    kubeflow("apply", "nightly.py", "--yes", "--set", "other=true")
    assert store.left()["recurring"] == ["nightly-daily", "nightly-often"]
    assert "- schedule 'daily'" in kubeflow("plan", "nightly.py", "--set", "by_itself=false")
    kubeflow("apply", "nightly.py", "--yes", "--set", "by_itself=false")
    assert store.left()["recurring"] == []
    kubeflow("apply", "nightly.py", "--yes")

    # Destroyed, it leaves nothing of its own; destroyed again, there is nothing to do.
    text = kubeflow("destroy", "nightly.py", "--yes")
    assert "schedule 'daily'" in text and "1 records of executions" in text
    assert store.left() == NOTHING
    assert {key.split("/")[2] for key in kubeflow.objects()} == {"runs"}, "what executions wrote stays"
    assert kubeflow("destroy", "nightly.py", "--yes").startswith("Nothing to do")


def test_a_failed_step_shows_its_reason_and_log(kubeflow: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    store = kubeflow.cluster.store
    kubeflow("apply", "nightly.py", "--yes")
    run = kubeflow.json("start", "nightly.py")["execution"]
    store.advance(run, "prepare", "RUNNING", log="one\ntwo\n")
    waits = iter(
        [
            lambda: store.advance(run, "prepare", "RUNNING", log="one\ntwo\nthree\nha"),
            lambda: store.advance(run, "prepare", "FAILED", log="one\ntwo\nthree\nno rows"),
        ]
    )
    monkeypatch.setattr(following.time, "sleep", lambda seconds: next(waits)())
    assert kubeflow("runs", "logs", "--follow", "-n", "1", *ON) == "two\nthree\nno rows\n"
    store.conclude(run)
    text = kubeflow("runs", "show", *ON)
    assert (
        "✗ prepare" in text
        and "prepare: no rows" in text
        and f"runs logs {run} prepare --on kubeflow -p nightly.py\n" in text
    )
    kubeflow("runs", "show", "--follow", *ON, code=1)
    last = json.loads(kubeflow("runs", "show", "--follow", "--json", *ON, code=1).splitlines()[-1])
    assert (last["status"], last["reason"]) == ("Failed", "prepare: no rows")
    assert last["steps"][0]["reason"] == "Error (exit code 1)\none\ntwo\nthree\nno rows"
    assert kubeflow("runs", "logs", *ON) == "one\ntwo\nthree\nno rows\n"
    assert "No step 'train' has begun" in kubeflow.error("runs", "logs", "latest", "train", *ON)
    assert "has no log: it was not run" in kubeflow.error("runs", "logs", "latest", "evaluate", *ON)


@pytest.mark.slow
def test_a_training_shows_its_starting_point(kubeflow: CommandLine) -> None:
    store = kubeflow.cluster.store
    kubeflow("apply", "retraining", "--yes", "-c", "nightly.yaml")
    run = kubeflow.json("start", "retraining", "-c", "nightly.yaml")["execution"]
    for name in ("prepare", "train"):
        store.advance(run, name, "SUCCEEDED", log="starts from: step 8 of this training (interrupted)\n")
    show = ("runs", "show", run, "--on", "kubeflow", "-p", "retraining", "-c", "nightly.yaml")
    (line,) = [line for line in kubeflow(*show).splitlines() if "starts from" in line]
    assert "✓ train" in line and "starts from step 8 of this training" in line
    starts = {each["step"]: each["starts_from"] for each in kubeflow.json(*show)["steps"]}
    assert starts == {"prepare": None, "train": "starts from step 8 of this training (interrupted)"}


def test_refusals_are_one_line_and_change_nothing(kubeflow: CommandLine) -> None:
    store = kubeflow.cluster.store
    kubeflow.write_settings(namespace="team-b")
    assert "does not allow it in namespace 'team-b'" in kubeflow.error("plan", "nightly.py")
    kubeflow.write_settings()
    (kubeflow.folder / "token").write_text("expired")
    assert "the token is missing or expired" in kubeflow.error("apply", "nightly.py", "--yes")
    (kubeflow.folder / "token").write_text(kubeflow.cluster.token)
    kubeflow.write_settings(root="s3://no-such-bucket/pipelines")
    assert "404 NoSuchBucket" in kubeflow.error("apply", "nightly.py", "--yes")
    kubeflow.write_settings()
    with environment({"AWS_ENDPOINT_URL_S3": "http://[::1/"}):
        message = kubeflow.error("apply", "nightly.py", "--yes")
    assert "$AWS_ENDPOINT_URL_S3 ('http://[::1/') is no address of storage: its host has an unpaired bracket" in message
    assert "There is no terminal to ask on" in kubeflow.error("apply", "nightly.py")
    message = kubeflow.error("plan", "nightly.py", "--set", "cron=0 2 L * ? *")
    assert "trigger 'daily', cron: the last day of a month" in message
    assert "There is no pipeline 'nightly' in namespace 'team-a'" in kubeflow.error("start", "nightly.py")
    assert store.left() == NOTHING and kubeflow.objects() == []


COMMANDS = (
    *(("plan", "nightly.py"), ("apply", "nightly.py", "--yes"), ("destroy", "nightly.py", "--yes")),
    *(("start", "nightly.py"), ("runs", "show", *ON), ("runs", "stop", *ON), ("runs", "list", *ON)),
    *(("runs", "logs", "latest", "prepare", *ON), ("list", "--deployed", "-c", "nightly.yaml")),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "token", "said"),
    [
        ({"endpoint": "http://[::1/"}, None, "endpoint (from FILE): its host has an unpaired bracket"),
        ({"endpoint": "http://kubeflow.münchen"}, None, "endpoint (from FILE): it has letters beyond ASCII"),
        ({"endpoint": "http://127.0.0.1:99999"}, None, "endpoint (from FILE): its port is no number from 1 to 65535"),
        ({"endpoint": "http://127.0.0.1:CLOSED"}, None, "Connection refused. Tried for"),
        ({"namespace": "team-b"}, None, "does not allow it in namespace 'team-b'"),
        ({}, "expired", "the token is missing or expired. Put a new one into the file"),
        ({}, "two words", "has spaces, line breaks or letters that no token has. Put one token there."),
    ],
)
def test_errors_of_every_command_are_one_line_with_what_to_do(
    changed: dict[str, str], token: str | None, said: str, kubeflow: CommandLine
) -> None:
    kubeflow("apply", "nightly.py", "--yes")
    left, objects = kubeflow.cluster.store.left(), kubeflow.objects()
    kubeflow.write_settings(**{key: text.replace("CLOSED", str(closed_port())) for key, text in changed.items()})
    if token is not None:
        (kubeflow.folder / "token").write_text(token)
    commands = COMMANDS if "CLOSED" not in str(changed) else COMMANDS[:2]  # each waits for seconds
    for command in commands:
        message = kubeflow.error(*command)
        file = command[-1] if command[-1].endswith(".yaml") else str(kubeflow.folder / "nightly.yaml")
        assert said.replace("FILE", file) in message and len(message.splitlines()) == 1, command
    assert kubeflow.cluster.store.left() == left and kubeflow.objects() == objects


@pytest.mark.slow
def test_an_approval_in_the_registry_starts_the_deployed_pipeline(
    kubeflow: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kubeflow_server() as (address, _):
        kubeflow.write_settings(registry=f"kubeflow:{address}")
        kubeflow("apply", "nightly.py", "--yes")
        registry = open_registry(f"kubeflow:{address}")
        registry.register("champions", "0" * 64, ModelRecord())

        def started(method: str, path: str) -> str:
            if (method, path) == ("POST", "/apis/v2beta1/runs"):
                os.kill(os.getpid(), signal.SIGTERM)
            return ""

        def approved() -> None:
            seen.wait(30)
            registry.set_status("champions", 1, "Approved")

        seen, keep = threading.Event(), State.keep

        def kept(state: State) -> None:
            keep(state)
            seen.set()

        monkeypatch.setattr(State, "keep", kept)
        kubeflow.cluster.fault = started
        decides = threading.Thread(target=approved)
        decides.start()
        text = kubeflow("serve", "nightly.py", "--target", "kubeflow", "--poll", "1")
        decides.join()
    assert "serving nightly in namespace team-a" in text and "nightly / approved started approved-" in text
    assert [each["display_name"][:9] for each in kubeflow.cluster.store.runs.values()] == ["approved-"]
