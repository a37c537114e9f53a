"""`drivetrain serve`: what it refuses, and the whole way from an approval to a run on this machine."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.components.registries import open_registry
from drivetrain.pipelines.cli import main

PIPELINE = """
from drivetrain.components import Output, component
from drivetrain.pipelines import Parameter, Pipeline, PipelineFinished, RegistryEvent, Schedule, Settings
from drivetrain.pipelines import register, step


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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "served_here", raising=False)
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


@pytest.mark.slow
def test_approve_and_watch_it_train(folder: Path) -> None:
    """The approval of another's model trains; what that registers starts nothing; what waits for its end runs too."""
    command = [
        sys.executable,
        "-m",
        "drivetrain.pipelines.cli.main",
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
        registry.register("digits", "a" * 64, {"ModelPackageGroupName": "digits"})
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
