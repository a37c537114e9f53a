from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

DRAWN = """\
         ╭────────────╮
         │ prepare    │
         │ Processing │
         ╰─────┬──────╯
               ▼
         ╭────────────╮
         │ evaluate   │
         │ Processing │
         ╰─────┬──────╯
               ▼
         ╭────────────╮
         │ gate       │
         │ Condition  │
         ╰─────┬──────╯
      ╭────────┴────────╮
      ▼ yes             ▼ no
╭────────────╮    ╭────────────╮
│ deploy     │    │ stop       │
│ Model      │    │ Fail       │
╰────────────╯    ╰────────────╯
"""


def test_a_definition_is_drawn(drivetrain) -> None:
    assert drivetrain("show", drivetrain.write("d.json", drivetrain.definition())) == DRAWN


def test_several_steps_of_one_name_are_not_drawn(drivetrain) -> None:
    inner = {"Name": "a", "Type": "Fail", "Arguments": {"ErrorMessage": "x"}}
    compared = [{"Type": "Equals", "LeftValue": 1, "RightValue": 1}]
    gate = {"Name": "a", "Type": "Condition", "Arguments": {"Conditions": compared, "IfSteps": [inner]}}
    said = drivetrain.error("show", drivetrain.write("d.json", {"Steps": [gate]}))
    assert "2 steps are named 'a'. Names are unique, in branches too. So they cannot be drawn." in said


def test_a_ready_pipeline_is_drawn(drivetrain) -> None:
    assert "register-model" in drivetrain("show", "retraining")


def test_a_run_is_drawn_with_its_step_statuses(drivetrain) -> None:
    drivetrain.run()
    drawn = drivetrain("show", "latest", "--home", drivetrain.home)
    assert "✓ prepare" in drawn and "– stop" in drawn and "not run" in drawn


def test_a_list_replaces_boxes_that_do_not_fit(drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    lines = drivetrain("show", drivetrain.write("d.json", drivetrain.definition())).splitlines()
    assert lines[0].split() == ["STEP", "TYPE", "STATUS", "AFTER"]
    assert lines[2].split()[:3] == ["evaluate", "Processing", "prepare"]


def test_files(drivetrain) -> None:
    file = drivetrain.write("d.json", drivetrain.definition())
    assert "Wrote dag.svg: 5 steps." in drivetrain("show", file, "-o", "dag.svg")
    root = ElementTree.parse(drivetrain.folder / "dag.svg").getroot()
    assert "evaluate" in "".join(root.itertext())
    drivetrain("show", file, "-o", "dag.html")
    assert (drivetrain.folder / "dag.html").read_text().startswith("<!doctype html>")
    assert ".svg or .html" in drivetrain.error("show", file, "-o", "dag.png")


def test_json(drivetrain) -> None:
    shown = json.loads(drivetrain("show", drivetrain.write("d.json", drivetrain.definition()), "--json"))
    assert [step["name"] for step in shown["steps"]] == ["prepare", "evaluate", "gate", "deploy", "stop"]
    assert {"from": "gate", "to": "deploy", "label": "yes", "carries": None} in shown["edges"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "line 1"),
        ('{"Steps": {}}', "Steps"),
        ('{"Steps": [{"Name": "a", "Type": "Fail", "DependsOn": ["a"]}]}', ""),
    ],
)
def test_bad_definitions(drivetrain, content: str, message: str) -> None:
    file = drivetrain.write("d.json", content)
    if message:
        assert message in drivetrain.error("show", file)
    else:
        assert "│ a" in drivetrain("show", file)  # a step that waits for itself can still be looked at


def test_an_unknown_name_is_refused(drivetrain) -> None:
    assert "No execution 'nothing'" in drivetrain.error("show", "nothing", "--home", drivetrain.home)
    assert "retraining" in drivetrain.err
    assert "No such file" in drivetrain.error("show", "gone.json")
