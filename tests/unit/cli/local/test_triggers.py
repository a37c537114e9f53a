"""`drivetrain triggers`: the list, the rehearsal of an event, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivetrain.cli import main

PIPELINE = '''
"""Trains again when it must."""
from drivetrain import Alarm, DataDrift, Limit, Parameter, Pipeline, QualityDrop, RegistryEvent, Schedule, Settings


class Again(Settings):
    group: str = "digits"


def trained(settings: Again) -> Pipeline:
    return Pipeline(
        name="again",
        parameters=[Parameter.string("Model", "none")],
        triggers=[
            Schedule(name="nightly", cron="0 2 * * ? *", timezone="Europe/Berlin"),
            Schedule(name="past", at="2020-01-01T00:00:00"),
            Schedule(name="paused", rate="1 day", enabled=False),
            RegistryEvent(
                name="approved",
                group=settings.group,
                parameters={"Model": "$.detail.ModelPackageArn"},
                limit=Limit(starts=2, every="1 day"),
                once_per="10 minutes",
                loop_guard=False,
            ),
            Alarm(name="drift", alarm="digits drift"),
            DataDrift(name="moved", group="digits", columns=("age", "sum")),
            QualityDrop(name="worse", group="digits", metric="accuracy"),
        ],
    )
'''
EVENTS = Path(__file__).parents[3] / "fixtures" / "events"
PACKAGE = "arn:aws:sagemaker:eu-west-1:123456789012:model-package/digits/7"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "200")  # the last column of a table is cut to the terminal
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "again_and_again.py").write_text(PIPELINE)
    return tmp_path


def test_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["triggers", "list", "again_and_again.py"]) == 0
    head, *rows = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert head.split() == ["TRIGGER", "KIND", "NEXT", "WHEN"]
    assert [row.split()[:2] for row in rows] == [
        ["nightly", "schedule"],
        ["past", "schedule"],
        ["paused", "schedule"],
        ["approved", "registry"],
        ["drift", "alarm"],
        ["moved", "drift"],
        ["worse", "quality"],
    ]
    assert "02:00  cron(0 2 * * ? *), Europe/Berlin" in rows[0]
    assert "  never  " in rows[1] and "  off  " in rows[2]
    assert rows[3].endswith(
        "a model of digits: Approved, changed ModelApprovalStatus; at most 2 in 1 day; once per 10 minutes; "
        "no loop guard"
    )
    assert rows[4].endswith("alarm 'digits drift' goes off")
    assert rows[5].endswith("data drift of digits: age or sum") and rows[6].endswith("quality drop of digits: accuracy")


def test_list_for_scripts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["triggers", "list", "again_and_again.py", "--json", "--set", "group=letters"]) == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["nightly"]["expression"] == "cron(0 2 * * ? *)" and len(found["nightly"]["next"]) == 3
    assert found["past"]["next"] == []
    assert found["approved"]["event_pattern"]["detail"]["ModelPackageGroupName"] == ["letters"]
    assert found["approved"]["parameters"] == {"Model": "$.detail.ModelPackageArn"}


def test_list_for_scripts_shows_no_secret(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "with_secrets.py").write_text(
        "from drivetrain import Alarm, Parameter, Pipeline\n"
        "def secrets() -> Pipeline:\n"
        "    given = {'ApiToken': 'hunter2', 'Password': '$.detail.alarmName', 'Rows': 3}\n"
        "    parameters = [Parameter.string('ApiToken', ''), Parameter.string('Password', ''),\n"
        "                  Parameter.integer('Rows', 1)]\n"
        "    return Pipeline(name='secrets', parameters=parameters,\n"
        "                    triggers=[Alarm(name='drift', alarm='a', parameters=given)])\n"
    )
    assert main.run(["triggers", "list", "with_secrets.py", "--json"]) == 0
    said = capsys.readouterr().out
    assert "hunter2" not in said
    (found,) = json.loads(said)
    assert found["parameters"] == {"ApiToken": "***", "Password": "$.detail.alarmName", "Rows": 3}


def test_nothing_to_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "still_nothing.py").write_text(
        "from drivetrain import Pipeline\ndef still() -> Pipeline:\n    return Pipeline(name='still')\n"
    )
    assert main.run(["triggers", "list", "still_nothing.py"]) == 0
    assert "Nothing starts still by itself" in capsys.readouterr().out
    assert main.run(["triggers", "replay", str(EVENTS / "model_package.json"), "still_nothing.py"]) == 0
    assert "no pipeline here has triggers" in capsys.readouterr().out


def test_replay(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["triggers", "replay", str(EVENTS / "model_package.json"), "again_and_again.py"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("SageMaker Model Package State Change  6f1c9c0e")
    place = lines.index("  ✓ again / approved starts it")
    assert lines[place + 1] == f"      Model = {PACKAGE}"
    assert lines[lines.index("  · again / nightly does not") + 1] == "      it starts by the clock, not by events"
    assert "  · again / drift does not" in lines


def test_replay_shows_no_secret(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PIPELINE.replace('"Model"', '"ApiToken"').replace("detail.ModelPackageArn", "detail.CustomerMetadata.key")
    (folder / "again_and_again.py").write_text(text)
    event = json.loads((EVENTS / "model_package.json").read_text())
    event["detail"]["CustomerMetadata"] = {"key": "canary-1"}
    (folder / "event.json").write_text(json.dumps(event))
    for more in ([], ["--json"]):
        assert main.run(["triggers", "replay", "event.json", "again_and_again.py", *more]) == 0
        said = capsys.readouterr().out
        assert "ApiToken" in said and "***" in said and "canary" not in said


def test_replay_uses_all_pipelines_of_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken_one.py").write_text("from drivetrain import Pipeline\ndef p() -> Pipeline:\n    return 3\n")
    both = folder / "events.json"
    both.write_text(
        json.dumps([json.loads((EVENTS / f"{name}.json").read_text()) for name in ("model_package", "training_job")])
    )
    assert main.run(["triggers", "replay", "events.json", "--json"]) == 0
    captured = capsys.readouterr()
    assert "broken_one.py is left out" in captured.err
    first, second = json.loads(captured.out)
    (approved,) = [one for one in first["pipelines"]["again"] if one["starts"]]
    assert approved["trigger"] == "approved" and approved["parameters"] == {"Model": PACKAGE}
    assert not any(one["starts"] for one in second["pipelines"]["again"])
    assert second["detail-type"] == "SageMaker Training Job State Change"


def test_a_hostile_event_cannot_control_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = json.loads((EVENTS / "model_package.json").read_text())
    event["id"] = "\x1b[2Jgone"
    event["detail"]["ModelApprovalStatus"] = "\x1b]0;title\x07\nApproved"
    event["detail"]["ModelPackageArn"] = "a\x1b[31m"
    Path("event.json").write_text(json.dumps(event))
    assert main.run(["triggers", "replay", "event.json", "again_and_again.py"]) == 0
    said = capsys.readouterr().out
    assert not {"\x1b", "\x07"} & set(said)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["replay", "nowhere.json"], "Event nowhere.json: No such file"),
        (["replay", "."], "Event .: Is a directory"),
        (["replay", "again_and_again.py"], "not JSON"),
        (["replay", "event.json", "nobody"], "No pipeline 'nobody'"),
        (["replay", "event.json", "--set", "group=x"], "are for one pipeline"),
        (["list", "again_and_again.py", "--set", "group=a b"], "group"),
    ],
)
def test_bad_input(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    Path("event.json").write_text((EVENTS / "model_package.json").read_text())
    assert main.run(["triggers", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and "Traceback" not in error
