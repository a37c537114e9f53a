"""The commands that reach into an account: what they say before they reach it, and what they import."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.cli.deployed.deployment import confirm
from tests.fixtures.sagemaker_service.playing import Playing
from tests.fixtures.sagemaker_service.server import TestAccount, sagemaker_service

COMMANDS = ("plan", "apply", "pull", "start", "destroy")
ON_RUNS = ("list", "show", "compare", "logs", "stop")
HELP_OF_ALL = """
import sys
from drivetrain.cli.main import run
for command in sys.argv[1:]:
    assert run([*command.split(), "--help"]) == 0
    heavy = {"boto3", "botocore", "rich", "numpy", "yaml"} & {name.partition(".")[0] for name in sys.modules}
    assert not heavy, (command, heavy)
"""
DEFINITION: dict[str, Any] = {
    "Version": "2020-12-01",
    "Parameters": [{"Name": "Rows", "Type": "Integer", "DefaultValue": 1}],
    "Steps": [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}],
}


def test_help_has_examples_and_imports_nothing_heavy(tmp_path: Path) -> None:
    commands = [*COMMANDS, *(f"runs {name}" for name in ON_RUNS)]
    done = subprocess.run(
        [sys.executable, "-c", HELP_OF_ALL, *commands], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    for command in commands:
        assert f"Examples:\n    drivetrain {command}" in done.stdout
    for name in ON_RUNS:
        assert re.search(rf"    drivetrain runs {name} .*--on \w+ -p retraining", done.stdout)


@pytest.mark.parametrize("command", ["plan", "apply", "pull", "destroy"])
def test_local_default_settings_are_refused_without_a_request(drivetrain, command: str) -> None:
    message = drivetrain.error(command, "retraining", *(["--yes"] if command in ("apply", "destroy") else []))
    assert (
        "deployment.targets.sagemaker.bucket is not set" in message
        and "--set deployment.targets.sagemaker.bucket=" in message
    )
    if command in ("plan", "apply"):
        message = drivetrain.error(command, "retraining", "--set", "deployment.targets.sagemaker.bucket=my-bucket")
        assert "deployment.targets.sagemaker.role is not set" in message


def test_typing_errors_are_explained(drivetrain) -> None:
    for command in ("plan", "apply", "pull", "run"):
        said = f"Give a pipeline (drivetrain {command} retraining) or a definition (drivetrain {command} -d FILE.json)"
        assert said in drivetrain.error(command)
        assert said in drivetrain.error(command, "retraining", "-d", "x.json")
    message = drivetrain.error("runs", "show", "-p", "nightly", "--region", "mars")
    assert "'mars' is no AWS region. Allowed: af-south-1" in message
    for region in ("EU-WEST-3", "eu_west_3"):
        message = drivetrain.error("runs", "list", "-p", "nightly", "--region", region)
        assert f"'{region}' is no AWS region. Did you mean 'eu-west-3'?" in message
    assert "no.json: No such file" in drivetrain.error("apply", "--plan", "no.json")
    drivetrain.write("plan.json", {"format": 9})
    assert "This is no plan of format" in drivetrain.error("apply", "--plan", "plan.json")
    assert "--discard belongs to the plan" in drivetrain.error("apply", "--plan", "plan.json", "--discard", "all")
    assert "Give --select STEP,..., too" in drivetrain.error("start", "nightly", "--from", "latest")
    assert "a name is empty" in drivetrain.error("start", "nightly", "--select", "a,,b")
    assert "give NAME=VALUE" in drivetrain.error("start", "nightly", "--param", "Rows")


@pytest.fixture
def account():
    with sagemaker_service().account() as account:
        yield account


@pytest.fixture
def deployed(drivetrain, account: TestAccount) -> tuple[Any, TestAccount, list[str]]:
    """Settings with which the definition above is deployed as `theirs`."""
    given = [
        f"--set=deployment.targets.sagemaker.bucket={account.make_bucket()}",
        f"--set=deployment.targets.sagemaker.role=arn:aws:iam::{account.number}:role/pipelines",
    ]
    drivetrain("apply", "-d", drivetrain.write("theirs.json", DEFINITION), "--yes", *given)
    return drivetrain, account, given


@pytest.mark.slow
def test_settings_locate_a_pipeline_without_code_here(deployed) -> None:
    drivetrain, account, given = deployed
    place = dict(each.removeprefix("--set=deployment.targets.sagemaker.").split("=") for each in given)
    drivetrain.write(
        "theirs.yaml", {"epochs": 20, "deployment": {"targets": {"sagemaker": {**place, "region": account.region}}}}
    )
    listed = ("runs", "list", "-p", "theirs", "-c", "theirs.yaml")
    assert "has not been executed yet" in drivetrain(*listed)
    message = drivetrain.error(*listed, "--set", "deploymnt.region=x")
    assert "Setting deploymnt does not exist. Did you mean 'deployment'?" in message
    message = drivetrain.error(*listed, "--set", "deployment.targets.sagemaker.region=mars")
    assert (
        "deployment.targets.sagemaker.region (from --set): give a region of AWS, such as eu-central-1. Given: 'mars'."
        in message
    )
    drivetrain("destroy", "theirs", "-c", "theirs.yaml", "--yes")
    assert "there is no pipeline 'theirs'" in drivetrain("destroy", "theirs", "-c", "theirs.yaml")


def test_without_a_terminal_no_question_is_asked(deployed) -> None:
    drivetrain, account, given = deployed
    changed = drivetrain.write("theirs.json", {**DEFINITION, "Parameters": []})
    assert "There is no terminal to ask on. Give --yes" in drivetrain.error("apply", "-d", changed, *given)
    assert "There is no terminal to ask on. Give --yes" in drivetrain.error("destroy", "theirs", *given)
    said = account.client("sagemaker").describe_pipeline(PipelineName="theirs")
    assert json.loads(said["PipelineDefinition"]) == DEFINITION


def test_end_of_input_is_not_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(question: str) -> str:
        raise EOFError

    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", ended)
    assert confirm("Delete it?", yes=False, instead="Give --yes.") is False
    monkeypatch.setattr("builtins.input", lambda question: " Yes ")
    assert confirm("Delete it?", yes=False, instead="Give --yes.") is True


def test_pull_of_a_definition_lists_edits_beside_it(deployed) -> None:
    drivetrain, account, given = deployed
    account.client("sagemaker").update_pipeline(PipelineName="theirs", PipelineDisplayName="Renamed")
    said = drivetrain("pull", "-d", "theirs.json", *given)
    assert "Edited beside the definition" in said and "display name theirs -> Renamed  (pipeline.DisplayName)" in said


def test_a_role_of_another_account_is_refused(deployed) -> None:
    drivetrain, _, given = deployed
    role = "--set=deployment.targets.sagemaker.role=arn:aws:iam::999999999999:role/x"
    message = drivetrain.error("plan", "-d", "theirs.json", given[0], role)
    assert "is of account 999999999999, and these credentials are of account" in message


def test_an_execution_from_start_to_report(deployed) -> None:
    drivetrain, account, _ = deployed
    on = ("--on", "sagemaker", "-p", "theirs")
    assert "has not been executed yet" in drivetrain("runs", "list", *on)
    assert "has not been executed yet" in drivetrain.error("runs", "show", *on)
    text = drivetrain("start", "theirs", "--param", "Rows=2", "--name", "by-hand")
    assert "Started " in text and "drivetrain runs show --on sagemaker -p theirs --region us-east-1 --follow\n" in text
    arn = account.client("sagemaker").list_pipeline_executions(PipelineName="theirs")["PipelineExecutionSummaries"][0]
    playing = Playing(account.backend(), arn["PipelineExecutionArn"])
    playing.begin("stop")
    playing.end("stop", "Failed", FailureReason="no", Metadata={"Fail": {"ErrorMessage": "no"}})
    playing.conclude("Failed", "Step stop failed.")
    text = drivetrain("runs", "show", "by-hand", *on)
    assert "✗ theirs failed" in text and "Step stop failed." in text and "✗ stop" in text
    said = json.loads(drivetrain("runs", "show", "--json", *on))
    assert (said["status"], said["steps"][0]["reason"], said["cost"]) == ("Failed", "no", None)
    text = drivetrain("runs", "show", "--follow", *on, code=1)
    assert "stop" in text and "failed" in text
    events = [json.loads(line) for line in drivetrain("runs", "show", "-f", "--json", *on, code=1).splitlines()]
    told = [event["event"] for event in events]
    assert told == ["execution_started", "step_started", "step_finished", "execution_finished", "summary"]
    assert events[-1] == {"event": "summary", **said}
    assert "by-hand" in drivetrain("runs", "list", "-n", "5", *on)
    [told] = json.loads(drivetrain("runs", "list", "--json", *on))
    assert told["status"] == "Failed" and "steps" not in told
    assert "it starts no program" in drivetrain.error("runs", "logs", "latest", "stop", *on)
    assert "has ended: Failed" in drivetrain.error("runs", "stop", *on)
    going = json.loads(drivetrain("start", "theirs", "--json"))
    assert json.loads(drivetrain("runs", "stop", "--json", *on)) == going
    see = f"drivetrain runs show {going['execution']} --on sagemaker -p theirs --region us-east-1 --follow\n"
    assert drivetrain("runs", "stop", *on).endswith(see)
    assert json.loads(drivetrain("runs", "show", "latest~1", "--json", *on)) == said
    assert "No execution 'latest~2': 'theirs' has 2 executions." in drivetrain.error("runs", "show", "latest~2", *on)
    text = drivetrain("runs", "compare", "latest", "by-hand", *on)
    assert going["execution"] in text and text.count("Cost: not known.") == 2
    both = json.loads(drivetrain("runs", "compare", "--json", *on))
    assert [one["execution"] for one in both] == [said["execution"], going["execution"]]  # the last two
    assert "is given twice" in drivetrain.error("runs", "compare", "by-hand", "by-hand", *on)
    assert "nothing to be compared with" in drivetrain.error("runs", "compare", "by-hand", *on)
    assert "There is no pipeline 'other'" in drivetrain.error("runs", "show", "--on", "sagemaker", "-p", "other")
    assert "Rows" in drivetrain.error("start", "theirs", "--param", "Rows=many")
    assert "--select other: there is no such step" in drivetrain.error("start", "theirs", "--select", "stop,other")


TOLD = """\
from drivetrain import Pipeline, Settings, fail


class Told(Settings):
    api_token: str = ""
    proxy: str = ""
    stage: str = "test"


def told(settings: Told) -> Pipeline:
    given = f"{len(settings.api_token)} {len(settings.proxy)} {settings.stage}"
    return Pipeline(
        name="told", description=given, steps=[fail("no", name="stop")], deployment=settings.deployment
    )
"""


def test_a_plan_stores_no_secret_setting(deployed) -> None:
    drivetrain, account, given = deployed
    (drivetrain.folder / "told_flow.py").write_text(TOLD)
    secrets = ["--set", "api_token=canary-1234", "--set", "proxy=http://me:canary-1234@proxy"]
    asked = ["told_flow.py", *given, "--set", "stage=live", *secrets]
    assert "canary" not in drivetrain("plan", *asked, "--json")
    said = drivetrain("plan", *asked, "--out", "plan.json")
    assert "drivetrain apply --plan plan.json --set api_token=... --set proxy=..." in said
    assert "canary" not in (drivetrain.folder / "plan.json").read_text()
    assert "Give again what it was made with: --set proxy=..." in drivetrain.error(
        "apply", "--plan", "plan.json", *secrets[:2]
    )
    assert "The plan is stale" in drivetrain.error("apply", "--plan", "plan.json", *secrets[:3], "proxy=http://other")
    drivetrain("apply", "--plan", "plan.json", *secrets)
    there = account.client("sagemaker").describe_pipeline(PipelineName="told")
    assert there["PipelineDescription"] == "11 27 live"
