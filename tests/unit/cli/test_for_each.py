"""A ForEach on the command line: its iterations in progress, summary, picture, page and events; selected steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.events import ExecutionStarted, StepExpanded, StepFinished, StepStarted
from drivetrain.telling.progress import PlainProgress, RunView

NUMBERS = {"OutputParameters": [{"OutputName": "n", "OutputType": "Integer"}]}


def get(path: str) -> dict[str, str]:
    return {"Get": path}


@pytest.fixture
def pipeline(tmp_path: Path) -> list[str]:
    """The options that run Each (Ask once an item) -> Tell with stubs."""
    ask: dict[str, Any] = {
        "Name": "Ask",
        "Type": "Lambda",
        "Arguments": {"item": get("ForEach.CurrentItem")},
        **NUMBERS,
    }
    each = {
        "IterableItems": get("Parameters.Items"),
        "MaxConcurrency": 2,
        "Selector": {"Pick": "MaxBy", "Field": get("IterationOutput.Ask.OutputParameters['n']")},
        "ForEachBody": [ask],
    }
    tell = {"Name": "Tell", "Type": "Lambda", "Arguments": {"n": get("Steps.Each.Selected.OutputParameters['n']")}}
    definition = {
        "Parameters": [{"Name": "Items", "Type": "String", "DefaultValue": '["red <b>", "blue"]'}],
        "Steps": [{"Name": "Each", "Type": "ForEach", "Arguments": each}, {**tell, **NUMBERS}],
    }
    (tmp_path / "loop.json").write_text(json.dumps(definition))
    (tmp_path / "one.json").write_text(json.dumps({"OutputParameters": {"n": 1}}))
    (tmp_path / "two.json").write_text(json.dumps({"OutputParameters": {"n": 2}}))
    stubs = [f"--stub=Ask={tmp_path}/one.json", f"--stub=Ask-1={tmp_path}/two.json", f"--stub=Tell={tmp_path}/one.json"]
    return ["-d", str(tmp_path / "loop.json"), *stubs]


def test_a_run_and_its_page_show_every_iteration(drivetrain: Any, pipeline: list[str]) -> None:
    out = drivetrain("run", *pipeline, "--home", drivetrain.home)
    lines = [" ".join(line.split()[2:]) for line in out.splitlines()]
    assert "Each: 2 steps in its iterations" in lines
    assert any(
        line.startswith("Each: succeeded in ") and line.endswith("Ask-1: OutputParameters.n 2") for line in lines
    )
    table = [line.split() for line in out.partition("STEP ")[2].splitlines()[1:5]]
    assert [row[1:3] for row in table[:3]] == [["Each", "succeeded"], ["Ask", "[0]"], ["Ask", "[1]"]]
    assert "for red <b>" in out
    facts = json.loads(drivetrain("runs", "show", "--json", "--home", drivetrain.home))
    assert [(step["name"], step["parent"], step["item"]) for step in facts["steps"]] == [
        ("Each", None, None),
        ("Ask-0", "Each", "red <b>"),
        ("Ask-1", "Each", "blue"),
        ("Tell", None, None),
    ]
    page = (drivetrain.home / "runs" / facts["execution"] / "report.html").read_text()
    assert page.count('class="inner"') == 2
    assert "<code>red &lt;b&gt;</code>" in page and "red <b>" not in page


def test_events_are_shown_as_lines_and_as_json(drivetrain: Any, pipeline: list[str]) -> None:
    drivetrain("run", *pipeline, "--home", drivetrain.home)
    shown = drivetrain("runs", "show", "--events", "--home", drivetrain.home)
    rows = [line.split()[1:] for line in shown.splitlines()[1:]]
    assert rows[0] == ["(execution)", "->", "Executing"]
    assert rows[1] == ["Each", "ForEach", "Starting", "->", "Executing"]
    assert rows[-1] == ["(execution)", "Executing", "->", "Succeeded"]
    events = json.loads(drivetrain("runs", "show", "latest", "--events", "--json", "--home", drivetrain.home))
    assert len(events) == len(rows) == 10
    assert {event["source"] for event in events} == {"aws.sagemaker"}


def test_selected_steps_run_alone(drivetrain: Any, pipeline: list[str]) -> None:
    drivetrain("run", *pipeline, "--home", drivetrain.home)
    (first,) = json.loads(drivetrain("runs", "list", "--json", "--home", drivetrain.home))
    out = drivetrain("run", *pipeline, "--select", "Tell", "--from", first["id"], "--home", drivetrain.home)
    assert f"Each: cached, from {first['id']}" in out
    assert "Tell: succeeded" in out and "Ask" not in out.partition("STEP ")[0]


def test_show_names_the_steps_of_the_body(drivetrain: Any, pipeline: list[str]) -> None:
    assert "ForEach · Ask" in drivetrain("show", pipeline[1])


def test_iteration_steps_are_listed_after_their_for_each() -> None:
    lines: list[str] = []
    progress = PlainProgress(lines.append, clock=lambda: 0.0)
    progress(ExecutionStarted("x", "p", (("Each", "ForEach", "Each"), ("Tell", "Lambda", "Tell"))))
    progress(StepStarted("Each", 1))
    children = (("Ask-0", "Lambda", "Ask [0]"), ("Ask-1", "Lambda", "Ask [1]"))
    progress(StepExpanded("Each", children))
    assert list(progress.view.steps) == ["Each", "Ask-0", "Ask-1", "Tell"]
    assert lines[-1].endswith("Each: 2 steps in its iterations")
    progress(StepFinished("Ask-0", "Succeeded", 1.0))
    assert progress.view.steps["Ask-0"].done


def test_a_resumed_run_keeps_facts_of_iterations() -> None:
    view = RunView(clock=lambda: 0.0)
    steps = (("Each", "ForEach", "Each"), ("Ask-0", "Lambda", "Ask [0]"), ("Tell", "Lambda", "Tell"))
    view.apply(ExecutionStarted("x", "p", steps, resumed=True, finished=("Ask-0",)))
    children = (("Ask-0", "Lambda", "Ask [0]"), ("Ask-1", "Lambda", "Ask [1]"))
    view.apply(StepExpanded("Each", children, finished=("Ask-0",)))
    assert list(view.steps) == ["Each", "Ask-0", "Ask-1", "Tell"]
    assert [step.status for step in view.steps.values()] == ["Waiting", "Succeeded", "Waiting", "Waiting"]
