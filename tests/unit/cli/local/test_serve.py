"""`drivetrain serve`: what it refuses, and the whole way from an approval to a run on this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.cli import main
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.registry import open_registry
from drivetrain.serve import server

PIPELINE = """
from drivetrain.components import Output, component
from drivetrain import Parameter, Pipeline, PipelineFinished, RegistryEvent, Schedule, Settings
from drivetrain import register, step


class Live(Settings):
    group: str = "digits"


@component
def train(model: Output, base: str = "none") -> None:
    (model / "model.txt").write_text(base)


def live(settings: Live) -> Pipeline:
    base = Parameter.string("Base", "none")
    made = step(train, base=base)
    return Pipeline(
        name="live",
        parameters=[base],
        steps=[made, register(model=made["model"], group="own", approval="Approved")],
        triggers=[
            Schedule(name="nightly", cron="0 2 * * ? *", enabled=False),
            RegistryEvent(name="approved", group=settings.group, parameters={"Base": "$.detail.ModelPackageArn"}),
            RegistryEvent(name="again", group="own", changed=()),
        ],
    )


def after() -> Pipeline:
    return Pipeline(name="after", steps=[step(train)], triggers=[PipelineFinished(name="live", pipeline="live")])


def idle() -> Pipeline:
    return Pipeline(name="idle")
"""


SELDOM = """
from drivetrain import Alarm, Pipeline, RegistryEvent, Schedule


def seldom() -> Pipeline:
    return Pipeline(
        name="seldom",
        triggers=[
            Schedule(name="nightly", cron="0 2 * * ? *"),
            Schedule(name="past", at="2020-01-01T00:00:00"),
            Schedule(name="ended", rate="1 day", end="2020-01-01"),
            Schedule(name="last-year", cron="0 2 * * ? 2020"),
            Schedule(name="paused", rate="1 day", enabled=False),
            RegistryEvent(name="approved", group="digits"),
            RegistryEvent(name="promoted", group="digits", status=None, stage="Production"),
            Alarm(name="drift", alarm="d"),
        ],
    )
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "served_here.py").write_text(PIPELINE)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["served_here.py:idle"], "served_here.py:idle has no triggers"),
        (["served_here.py:live", "served_here.py:live"], "Two pipelines are called 'live'"),
        (["--set", "group=x"], "are for one pipeline"),
        (["served_here.py:live", "served_here.py:after", "--set", "group=x"], "are for one pipeline"),
        (["nobody"], "No pipeline 'nobody'"),
        (["served_here.py:live", "--home", "served_here.py"], "is a file"),
    ],
)
def test_bad_input(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert main.run(["serve", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and "Traceback" not in error
    assert not (folder / ".drivetrain" / "serving").exists()


class Served:
    """What would be served, instead of a server that waits for a signal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pipelines: list[str] = []
        monkeypatch.setattr(server, "Server", self.make)

    def make(self, served: Any, *rest: object, fresh: bool) -> Served:
        self.pipelines = [one.pipeline.name for one in served]
        return self

    def start(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    def stop(self) -> None:
        pass


def test_a_broken_file_does_not_block_others(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "served_and_broken.py").write_text(
        "from drivetrain import Pipeline\ndef broken() -> Pipeline:\n    return Pipeline(name='a b')\n"
    )
    served = Served(monkeypatch)
    assert main.run(["serve"]) == 0
    assert {"live", "after"} <= set(served.pipelines)
    warned = capsys.readouterr().err.splitlines()
    assert len([line for line in warned if line.startswith("warning: served_and_broken.py is left out: ")]) == 1
    # Who names it wants it.
    assert main.run(["serve", "served_here.py:live", "served_and_broken.py"]) == 2
    assert "'a b'" in capsys.readouterr().err


def test_triggers_that_never_fire_here_are_listed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "served_seldom.py").write_text(SELDOM)
    Served(monkeypatch)
    assert main.run(["serve", "served_seldom.py"]) == 0
    said = {line.split(" / ")[1].split(":")[0]: line for line in capsys.readouterr().out.splitlines() if " / " in line}
    assert re.search(r" \(next 2\d{3}-\d\d-\d\d 02:00 UTC\)$", said["nightly"])
    for name in ("past", "ended", "last-year"):
        assert said[name].endswith(" (never: its last time is past)"), name
    assert said["paused"].endswith(" (switched off)")
    for name in ("promoted", "drift"):
        assert said[name].endswith(" (not seen here)"), name
    assert said["approved"].endswith("changed ModelApprovalStatus")
    assert main.run(["serve", "served_seldom.py", "--json"]) == 0
    *triggers, serving, ending = map(json.loads, capsys.readouterr().out.splitlines())
    assert (serving["event"], serving["pid"], ending["event"]) == ("serving", os.getpid(), "ending")
    told = {each["trigger"]: each for each in triggers}
    assert told.keys() == said.keys() and told["nightly"]["next"].endswith("T02:00:00+00:00")
    assert not told["paused"]["enabled"] and not told["drift"]["seen"] and told["past"]["next"] is None


@pytest.mark.slow
def test_approve_and_watch_it_train(folder: Path) -> None:
    """The approval of another's model trains; what that registers starts nothing; what waits for its end runs too."""
    command = [
        sys.executable,
        "-m",
        "drivetrain.cli.main",
        "serve",
        "served_here.py:live",
        "served_here.py:after",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        said: list[str] = []

        def until(pattern: str) -> None:
            for line in server.stdout or ():
                said.append(line)
                if re.search(pattern, line):
                    return
            raise AssertionError(f"{pattern} never came:\n{''.join(said)}")

        until("serving; Ctrl-C ends")
        registry = open_registry("local:.drivetrain/ledger.db")
        registry.register("digits", "a" * 64, record_of({"ModelPackageGroupName": "digits"}))
        registry.set_status("digits", 1, "Approved")
        until(r"after / live-[0-9a-f]{12} succeeded")
        server.send_signal(signal.SIGTERM)
        until("ending")
        rest, _ = server.communicate(timeout=60)
        assert server.returncode == 0, rest
    finally:
        server.kill()
        server.wait()
    text = "".join(said)
    assert re.search(r"live / approved starts approved-[0-9a-f]{12}\n", text)
    assert re.search(r"live / approved-[0-9a-f]{12} succeeded: ", text)
    assert "live / again does not start: loop guard" in text
    assert len(re.findall(" starts ", text)) == 2
    (made,) = registry.versions("own")
    assert made.status == "Approved"
    (log,) = (folder / ".drivetrain" / "serving").glob("approved-*.log")
    assert "own version 1" in log.read_text()
