"""`drivetrain runs callback`, beside a run that waits in another process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

# A run that nobody answers waits for ever.
pytestmark = pytest.mark.timeout(120)


def definition() -> dict[str, Any]:
    return {
        "Version": "2020-12-01",
        "Steps": [
            {
                "Name": "review",
                "Type": "Callback",
                "SqsQueueUrl": "https://sqs.us-east-1.amazonaws.com/000000000000/reviews",
                "Arguments": {"model": "m-1"},
                "OutputParameters": [{"OutputName": "approved", "OutputType": "Boolean"}],
            },
            {
                "Name": "record",
                "Type": "Lineage",
                "DependsOn": ["review"],
                "Arguments": {"Actions": [{"ActionName": "reviewed", "ActionType": "Review"}]},
            },
        ],
    }


def started(drivetrain) -> tuple[subprocess.Popen[str], str]:
    """A run in a process of its own, and the token that it waits for."""
    file = drivetrain.write("review.json", definition())
    command = "from drivetrain.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "run", "-d", str(file), "--home", str(drivetrain.home)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"waits for: drivetrain runs callback (\w{10}) --output approved=BOOLEAN", line):
            return process, found[1]
    raise AssertionError(f"the run ended with {process.wait()} and asked nothing")


def test_a_run_continues_with_the_answer(drivetrain) -> None:
    process, token = started(drivetrain)
    with process:
        listed = drivetrain("runs", "callback", "--home", drivetrain.home)
        assert token in listed and "review" in listed and "approved (Boolean)" in listed and "m-1" in listed
        [waiting] = json.loads(drivetrain("runs", "callback", "--json", "--home", drivetrain.home))
        assert waiting["body"] == {"token": token, "arguments": {"model": "m-1"}}
        said = drivetrain("runs", "callback", token, "--output", "approved=true", "--home", drivetrain.home)
        assert said.startswith("review of ") and said.endswith(" goes on.\n")
        out, _ = process.communicate()
        assert process.returncode == 0 and "review: succeeded" in out and "approved=True" in out
    assert drivetrain("runs", "callback", "--home", drivetrain.home) == "No step waits for an answer.\n"


@pytest.mark.slow
def test_a_run_fails_with_the_reason(drivetrain) -> None:
    process, token = started(drivetrain)
    with process:
        drivetrain("runs", "callback", token, "--fail", "the reviewer said no", "--home", drivetrain.home)
        out, _ = process.communicate()
    assert process.returncode == 1 and "the reviewer said no" in out


@pytest.mark.slow
def test_a_stopped_run_keeps_the_answer_for_its_resume(drivetrain) -> None:
    process, token = started(drivetrain)
    with process:
        stopping = drivetrain("runs", "stop", "--home", drivetrain.home)
        see = rf"drivetrain runs show \1 --follow --home {drivetrain.home}"
        assert re.fullmatch(rf"Stopping (\w{{12}})\. See how it ends: {see}\n", stopping)
        process.communicate()
        assert process.returncode == 130
    said = drivetrain("runs", "callback", token, "--output", "approved=false", "--home", drivetrain.home)
    assert re.search(rf"drivetrain runs resume \w{{12}} --home {drivetrain.home}", said)
    out = drivetrain("runs", "resume", "latest", "--home", drivetrain.home)
    assert "approved=False" in out and "waits for" not in out


def test_invalid_answers_are_refused(drivetrain) -> None:
    error = drivetrain.error("runs", "callback", "abcdefghij", "--output", "x=1", "--home", drivetrain.home)
    assert "no step waits with the token 'abcdefghij'" in error
    error = drivetrain.error("runs", "callback", "abcdefghij", "-o", "x=1", "--fail", "no", "--home", drivetrain.home)
    assert "--output and --fail exclude each other" in error
    error = drivetrain.error("runs", "callback", "--output", "x=1", "--home", drivetrain.home)
    assert "Whose question is answered? Give its token" in error


def test_a_handler_and_a_stub_without_a_file(drivetrain) -> None:
    """--callback answers in a person's place; --stub STEP stands for a step that gives nothing."""
    handler = drivetrain.write("answers.py", "def yes(message, context):\n    return {'approved': True}\n")
    content = definition()
    content["Steps"].append({"Name": "spark", "Type": "EMR", "Arguments": {"StepConfig": {}}})
    file = drivetrain.write("review.json", content)
    run = ("run", "-d", file, "--home", drivetrain.home, "--callback", f"review={handler}:yes")
    assert "--stub spark, where no step needs any" in drivetrain.error(*run)
    out = drivetrain(*run, "--stub", "spark")
    assert "approved=True" in out and "spark: succeeded" in out and "stubbed" in out
    # The settings say the same.
    settings = drivetrain.write(
        "settings.yaml", f'local: {{callbacks: {{review: "{handler}:yes"}}, stubs: {{spark: ""}}}}'
    )
    out = drivetrain("run", "-d", file, "--home", drivetrain.home, "-c", settings, "--fresh")
    assert "approved=True" in out and "stubbed" in out
