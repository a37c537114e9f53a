from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.run_store.home import Home
from drivetrain.run_store.writer import LedgerWriter

SECRET = "canary-7f3a9c"

KILLED = """
import os, sys
from drivetrain.telling.progress import PlainProgress
from drivetrain.cli.main import main
from drivetrain.run_store.events import StepFinished

show = PlainProgress.__call__

def show_and_die(self, event):
    show(self, event)
    if isinstance(event, StepFinished) and event.step == "prepare":
        os.kill(os.getpid(), 9)

PlainProgress.__call__ = show_and_die
main()
"""


def test_a_run_from_its_start_to_its_page(drivetrain) -> None:
    out = drivetrain.run()
    lines = out.splitlines()
    assert lines[0].endswith(", 5 steps") and "nightly starts: execution " in lines[0]
    assert any(line.endswith("gate: succeeded: yes") for line in lines)
    assert "evaluate: accuracy 0.9500" in out
    (row,) = json.loads(drivetrain("runs", "list", "--json", "--home", drivetrain.home))
    assert row["status"] == "Succeeded" and row["pipeline"] == "nightly"
    report = drivetrain.home / "runs" / row["id"] / "report.html"
    assert f"Report: home/runs/{row['id']}/report.html" in out
    page = report.read_text()
    assert "0.9500" in page and "ml.m5.large" in page and "accuracy by class" in page


def test_show_prints_what_the_run_printed(drivetrain) -> None:
    out = drivetrain.run()
    shown = drivetrain("runs", "show", "--home", drivetrain.home)
    assert shown.splitlines()[2:] == out.partition("\n\n")[2].splitlines()[2:]
    facts = json.loads(drivetrain("runs", "show", "latest", "--json", "--home", drivetrain.home))
    assert facts["results"] == {"evaluate": {"accuracy": 0.95, "accuracy_class_0": 1.0}}
    assert [step["status"] for step in facts["steps"]] == ["Succeeded"] * 4 + ["NotExecuted"]
    assert facts["parameters"]["MinAccuracy"] == 0.9


def test_a_run_that_has_ended_is_followed_to_its_end(drivetrain) -> None:
    out = drivetrain.run(accuracy=0.5, code=1)
    at_home = ("--home", drivetrain.home)
    followed = drivetrain("runs", "show", "--follow", *at_home, code=1)
    assert "evaluate: succeeded" in followed and "stop: failed: not good enough" in followed
    assert followed.partition("\n\n")[2] == out.partition("\n\n")[2]  # what came of it is said as the run said it
    with LedgerWriter(Home(drivetrain.home)) as ledger, ledger.transaction() as db:  # as if it was run long ago
        for table in ("steps", "attempts", "executions"):
            db.execute(f"UPDATE {table} SET ended = 2000060 + ended - coalesce(started, ended), started = 2000060")
        db.execute("UPDATE executions SET started = 2000000")
    followed = drivetrain("runs", "show", "--follow", *at_home, code=1)
    begun, first, *_ = followed.splitlines()
    assert begun.startswith("   0.00 s  nightly starts") and first.startswith("1 min 00 s  prepare: started")
    lines = [json.loads(line) for line in drivetrain("runs", "show", "-f", "--json", *at_home, code=1).splitlines()]
    assert lines[0]["event"] == "execution_started" and lines[0]["time"] == 2_000_000
    assert all(2_000_060 <= line["time"] < 2_000_120 for line in lines[1:-1])
    assert [line["event"] for line in lines[-2:]] == ["execution_finished", "summary"]
    assert lines[-1]["status"] == "Failed" and Path(lines[-1]["report"]).is_file()
    error = drivetrain.error("runs", "show", "--follow", "--events", *at_home)
    assert "--follow and --events do not go together" in error


def test_a_run_that_has_ended_cannot_be_stopped(drivetrain) -> None:
    drivetrain.run()
    assert "has ended (succeeded); there is nothing to stop" in drivetrain.error(
        "runs", "stop", "--home", drivetrain.home
    )


def test_a_run_that_fails(drivetrain) -> None:
    out = drivetrain.run(accuracy=0.5, code=1)
    assert out.endswith("✗ stop failed\nnot good enough\n")
    assert "nightly failed" in out
    shown = drivetrain("runs", "show", "--home", drivetrain.home)
    assert shown.endswith("✗ stop failed\nnot good enough\n")


def test_parameters(drivetrain) -> None:
    assert "gate: succeeded: no" in drivetrain.run("--param", "MinAccuracy=0.99", code=1)
    drivetrain.run("--param", "MinAccurac=0.99", code=2)
    assert "Did you mean 'MinAccuracy'?" in drivetrain.err
    drivetrain.run("--param", "MinAccuracy=high", code=2)
    assert "'MinAccuracy'" in drivetrain.err and "number" in drivetrain.err


def test_a_step_that_cannot_run_here_is_reported_before_anything_starts(drivetrain) -> None:
    file = drivetrain.write("nightly.json", drivetrain.definition())
    message = drivetrain.error("run", "-d", file, "--home", drivetrain.home)
    assert "'prepare'" in message and "--stub" in message
    assert json.loads(drivetrain("runs", "list", "--json", "--home", drivetrain.home)) == []


def test_refusals_of_the_service_are_warnings_of_a_local_run(drivetrain) -> None:
    wrong = drivetrain.definition()
    del wrong["Steps"][0]["Arguments"]["RoleArn"]
    file = drivetrain.write("nightly.json", wrong)
    assert "warning" not in drivetrain.error("run", "-d", file, "--home", drivetrain.home)  # it lacks programs
    stubs = [f"--stub={step}" for step in ("prepare", "deploy")]
    metrics = drivetrain.write("stub.json", {"PropertyFiles": {"Metrics": {"accuracy": 1}}})
    drivetrain("run", "-d", file, "--home", drivetrain.home, *stubs, f"--stub=evaluate={metrics}", "--quiet")
    [warning] = drivetrain.err.splitlines()
    assert warning.startswith("warning: the service would refuse prepare: Arguments: 'RoleArn' is missing.")


def test_what_to_run_is_given_once(drivetrain) -> None:
    assert "Give a pipeline" in drivetrain.error("run")
    assert "Give a pipeline" in drivetrain.error("run", "retraining", "-d", "x.json")
    assert "Setting a (from --set) does not exist" in drivetrain.error("run", "-d", __file__, "--set", "a=1")
    assert "No such file" in drivetrain.error("run", "-d", "x.json")


def test_json_lines_from_start_to_end(drivetrain) -> None:
    lines = [json.loads(line) for line in drivetrain.run("--json").splitlines()]
    assert lines[0]["event"] == "execution_started"
    assert [line["event"] for line in lines[-2:]] == ["execution_finished", "summary"]
    assert Path(lines[-1]["report"]).is_file() and lines[-1]["status"] == "Succeeded"
    drivetrain.run("--json", accuracy=0.1, code=1)


def test_secrets_appear_nowhere(drivetrain) -> None:
    """A parameter that is named like a secret: not in the output, the page, or what `runs show` and the ledger tell."""
    said = drivetrain.run("--param", f"ApiToken={SECRET}") + drivetrain.err
    said += drivetrain("runs", "show", "--json", "--home", drivetrain.home)
    assert SECRET not in said
    assert json.loads(drivetrain.out)["parameters"]["ApiToken"] == "***"
    (report,) = (drivetrain.home / "runs").glob("*/report.html")
    assert SECRET not in report.read_text() and "***" in report.read_text()
    assert SECRET.encode() not in (drivetrain.home / "ledger.db").read_bytes()


def killed(drivetrain) -> str:
    """Run in a process of its own that is killed after its first step; the execution."""
    drivetrain.run(code=0)  # writes the files
    arguments = ["run", "-d", "nightly.json", "--home", "killed", "--param", "MinAccuracy=0.8"]
    arguments += [f"--stub={step}={step}.json" for step in ("prepare", "evaluate", "deploy")]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], cwd=drivetrain.folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == -9, done.stderr
    return done.stdout.split("execution ")[1].partition(",")[0]


def test_a_killed_run_is_interrupted_at_once_and_the_same_command_continues_it(drivetrain) -> None:
    execution = killed(drivetrain)
    at_home = ("--home", drivetrain.folder / "killed")
    listed = drivetrain("runs", "list", *at_home)
    assert f"An interrupted run goes on: drivetrain runs resume {execution} --home {at_home[1]}\n" in listed
    shown = drivetrain("runs", "show", *at_home)
    assert f"Go on: drivetrain runs resume {execution} --home {drivetrain.folder / 'killed'}" in shown
    drivetrain.home = drivetrain.folder / "killed"
    again = drivetrain.run("--param", "MinAccuracy=0.8")
    assert again.startswith(f"The same run was interrupted: going on with {execution} (--fresh starts a new one).")
    assert "1 done before" in again and "prepare: started" not in again
    assert len(json.loads(drivetrain("runs", "list", "--json", *at_home))) == 1


@pytest.mark.slow
def test_a_killed_run_can_be_resumed_by_name_or_left_for_a_fresh_one(drivetrain) -> None:
    execution = killed(drivetrain)
    drivetrain.home = drivetrain.folder / "killed"
    assert "interrupted" not in drivetrain.run("--param", "MinAccuracy=0.8", "--fresh")
    resumed = drivetrain("runs", "resume", execution[:6], "--home", drivetrain.home)
    assert f"nightly goes on: execution {execution}" in resumed
    assert "there is nothing to resume" in drivetrain.error("runs", "resume", execution, "--home", drivetrain.home)


def test_nothing_has_been_run(drivetrain) -> None:
    at_home = ("--home", drivetrain.home)
    missing = f"There is no folder {drivetrain.home}."  # perhaps a mistyped --home
    assert drivetrain("runs", "list", *at_home).startswith(f"Nothing has been run yet. {missing}")
    assert missing in drivetrain("runs", "list", "-p", "nightly", *at_home)
    assert missing in drivetrain("runs", "prune", "--keep", "1", *at_home)
    assert json.loads(drivetrain("runs", "list", "--json", *at_home)) == []
    assert missing in drivetrain.err
    for command in ("show", "logs", "stop", "resume", "report"):
        assert f"Nothing has been run yet. {missing}" in drivetrain.error("runs", command, *at_home)
    assert not drivetrain.home.exists()


def test_list_is_bounded_and_filtered(drivetrain) -> None:
    for minimum in ("0.1", "0.2", "0.3"):
        drivetrain.run("--param", f"MinAccuracy={minimum}")
    at_home = ("--home", drivetrain.home)
    rows = json.loads(drivetrain("runs", "list", "--json", "-n", "2", *at_home))
    assert [row["parameters"]["MinAccuracy"] for row in rows] == [0.3, 0.2]
    assert json.loads(drivetrain("runs", "list", "--json", "-p", "other", *at_home)) == []


def test_the_home_of_the_environment(drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    drivetrain.run()
    monkeypatch.setenv("DRIVETRAIN_HOME", os.fspath(drivetrain.home))
    assert "nightly" in drivetrain("runs", "list")
    monkeypatch.setenv("DRIVETRAIN_HOME", os.fspath(drivetrain.write("a-file", "")))
    assert "a-file" in drivetrain.error("runs", "list")


def test_the_page_can_be_written_anew(drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    drivetrain.run()
    (report,) = (drivetrain.home / "runs").glob("*/report.html")
    report.unlink()
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert drivetrain("runs", "report", "--open", "--home", drivetrain.home).strip() == str(report)
    assert report.is_file() and opened == [report.as_uri()]


def test_local_replacements_come_from_settings_too(drivetrain) -> None:
    """The handler of a Lambda in the file, and another one on the command line, which wins."""
    arn = "arn:aws:lambda:us-east-1:000000000000:function:ask"
    handlers = drivetrain.write(
        "handlers.py",
        "def from_file(event, context):\n    return {'said': 'file'}\n"
        "def typed(event, context):\n    return {'said': 'typed'}\n",
    )
    ask = {
        "Name": "ask",
        "Type": "Lambda",
        "FunctionArn": arn,
        "Arguments": {},
        "OutputParameters": [{"OutputName": "said", "OutputType": "String"}],
    }
    said = {"Get": "Steps.ask.OutputParameters['said']"}
    stop = {"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": said}}
    file = drivetrain.write("asking.json", json.dumps({"Version": "2020-12-01", "Steps": [ask, stop]}))
    config = drivetrain.write("local.yaml", f'local:\n  lambdas:\n    "{arn}": {handlers}:from_file\n')
    common = ("run", "-d", file, "-c", config, "--home", drivetrain.home, "--no-cache")
    assert "stop failed\nfile" in drivetrain(*common, code=1)
    assert "stop failed\ntyped" in drivetrain(*common, "--lambda", f"{arn}={handlers}:typed", code=1)
