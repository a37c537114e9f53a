"""What a user sees of a run by kfp's local runner: progress, page, logs, failures, exit codes, and a stop."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.cli import main
from drivetrain.processes import with_token
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.kubeflow.run import runner

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
SMALL = Path(__file__).parents[1] / "fixtures" / "target_pipelines" / "small.py"
WAITING = """
import signal
import subprocess
from pathlib import Path
from drivetrain import Pipeline, Settings, step
from drivetrain.components import Output, component

@component
def wait(out: Output, *, place: str, stubborn: bool = False) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else signal.SIG_DFL)
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path(place).write_text(str(left.pid))
    left.wait()

class Waiting(Settings):
    stubborn: bool = False

def waiting(settings: Waiting) -> Pipeline:
    place = str(Path(__file__).parent / "pid")
    return Pipeline(name="waiting", steps=[step(wait, place=place, stubborn=settings.stubborn)])
"""

WORKING = """
import os
from pathlib import Path
from drivetrain import Pipeline, step
from drivetrain.components import Output, component

@component
def work(out: Output) -> None:
    import colorsys
    Path("left-behind.txt").write_text("mine")
    Path(out, "folder.txt").write_text(f"{os.getcwd()} {colorsys.__file__}")

def working() -> Pipeline:
    return Pipeline(name="working", steps=[step(work)])
"""


def run(home: Path, function: str, *words: str) -> int:
    return main.run(["run", f"{SMALL}:{function}", "--target", "kubeflow", "--home", str(home), *words])


def test_a_run_with_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "swept") == 0
    printed = capsys.readouterr().out
    for line in (
        "fit-2: it has no cache, so it runs",
        "sweep: 6 steps in its iterations",
        "register-model: succeeded in",
        "swept version 1",
    ):
        assert line in printed
    assert re.search(r"✓ sweep +succeeded +\S+ s +fit-1: score 1\n", printed)

    assert main.run(["runs", "show", "latest", "--json", "--home", str(tmp_path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [model["version"] for model in shown["models"]] == [1] and shown["status"] == "Succeeded"
    rates: list[str] = []
    for number in range(3):
        assert main.run(["runs", "logs", "latest", f"fit-{number}", "--home", str(tmp_path)]) == 0
        rates += re.findall(r"loss=0\.333333 score=(\S+)", capsys.readouterr().out)
    assert rates == ["0.960000", "1.000000", "0.640000"]

    page = (Home(tmp_path).run(shown["execution"]) / "report.html").read_text()
    for word in ("fit [2]", "swept version 1", "score", "register-model"):
        assert word in page
    assert str(tmp_path) not in page and "kfp" not in page.casefold().replace("kubeflow", "")


def test_events_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "trained", "--json") == 0
    printed = capsys.readouterr()
    events: list[dict[str, Any]] = [json.loads(line) for line in printed.out.splitlines()]
    assert [event["event"] for event in events][:2] == ["execution_started", "step_started"]
    assert events[-2]["event"] == "execution_finished" and events[-1]["event"] == "summary"
    assert events[-1]["metrics"]["fit"] == {"loss": 0.333333, "score": 0.9975}
    assert {event["step"] for event in events if event["event"] == "step_finished"} == {
        *("make", "fit", "copy-twice", "last", "names", "gate", "register-model", "stop")
    }


def test_a_program_that_refuses_its_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "refused") == 2
    printed = capsys.readouterr().out
    assert printed.rstrip().endswith("✗ refuse failed\nerror: 1 file has no rows. Give one that has.")
    assert re.search(r"– never +not run", printed) and "Traceback" not in printed


def test_a_program_that_breaks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "crashed") == 1
    printed = capsys.readouterr().out
    assert "crash: failed in" in printed and "RuntimeError: the disk of the future is full" in printed
    log = re.search(r"\(log: (\S+)\)", printed)
    assert log is not None and 'File "small.py", line' in printed
    assert main.run(["runs", "logs", "latest", "--home", str(tmp_path)]) == 0
    assert "RuntimeError: the disk of the future is full" in capsys.readouterr().out


def test_a_lost_attempt_is_retried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its half of an output is gone, and what failed stays in the history."""
    assert run(tmp_path / "home", "tried_again", "--param", f"Marker={tmp_path / 'marker'}") == 0
    printed = capsys.readouterr().out
    assert re.search(r"✓ sometimes +succeeded +\S+ s +2 attempts", printed)
    home = Home(tmp_path / "home")
    (kept,) = home.objects.rglob("kept")
    assert [path.name for path in kept.iterdir()] == ["whole.txt"]
    with Ledger(home) as ledger:
        execution = ledger.execution("latest").id
        first, second = ledger.attempts(execution, "sometimes")
    assert (first.status, second.status) == ("Failed", "Succeeded")
    assert first.reason is not None and first.reason.startswith("exit code 75")
    assert all((home.logs(execution, "sometimes", number) / "algo-1.log").exists() for number in (1, 2))


def test_policy_attempts_count_further_attempts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "lost_each_time") == 1
    assert re.search(r"✗ crash +failed +\S+ s +3 attempts", capsys.readouterr().out)
    with Ledger(Home(tmp_path)) as ledger:
        tries = ledger.attempts(ledger.execution("latest").id, "crash")
    assert [each.status for each in tries] == ["Failed"] * 3


@pytest.fixture
def started(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A run whose step waits, and what that step has started in a session of its own."""
    (tmp_path / "waiting.py").write_text(WAITING)
    command = [sys.executable, "-m", "drivetrain.cli.main", "run", "waiting.py", "--target", "kubeflow"]
    command += getattr(request, "param", [])
    environment = {**os.environ, "DRIVETRAIN_HOME": str(tmp_path / "home")}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "wait: it has no cache" in line:
                break
        deadline = time.monotonic() + 60
        while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        left = int((tmp_path / "pid").read_text())
        try:
            yield process, left
        finally:
            process.kill()
            if exists(left):
                os.kill(left, signal.SIGKILL)


def exists(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def token_of(pid: int) -> str:
    variables = dict(each.partition("=")[::2] for each in Path(f"/proc/{pid}/environ").read_text().split("\0"))
    return variables["DRIVETRAIN_JOB"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped(
    number: signal.Signals, started: tuple[subprocess.Popen[str], int], tmp_path: Path
) -> None:
    process, left = started
    token = token_of(left)
    process.send_signal(number)
    printed = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert "Stopping: the steps are asked to end" in printed and re.search(r"■ wait +stopped", printed)
    assert "resume" not in printed, "it cannot"
    assert not exists(left) and with_token(token) == []
    with Ledger(Home(tmp_path / "home")) as ledger:
        assert ledger.execution("latest").status == "Stopped"
    assert not list((tmp_path / "home" / "runs").glob("*/tmp"))


@pytest.mark.parametrize("started", [["--set", "stubborn=true"]], indirect=True)
def test_a_second_signal_ends_a_run_at_once(started: tuple[subprocess.Popen[str], int], tmp_path: Path) -> None:
    """The step does not end when it is asked to, and has ten seconds for it."""
    process, left = started
    asked, deadline = 0, time.monotonic() + 0.8 * runner.STOP_GRACE_S
    while process.poll() is None:  # two signals in one moment are one
        assert time.monotonic() < deadline, f"it goes on after {asked} signals"
        process.send_signal(signal.SIGINT)
        asked += 1
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
    assert asked > 1 and process.returncode == 130 and not exists(left)
    with Ledger(Home(tmp_path / "home")) as ledger:
        assert ledger.execution("latest").status == "Stopped"


def test_programs_work_in_a_folder_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They import nothing from the folder where the command was given, and write nothing into it."""
    (tmp_path / "code").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "code" / "working.py").write_text(WORKING)
    (tmp_path / "here" / "colorsys.py").write_text("raise RuntimeError('a file of somebody else')")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path / "here")
    words = ["--target", "kubeflow", "--home", str(tmp_path / "home")]
    assert main.run(["run", "../code/working.py", *words]) == 0
    assert [path for path in before if not path.exists()] == []
    made = {path for path in tmp_path.rglob("*") if not path.is_relative_to(tmp_path / "home")} - set(before)
    assert {path.name for path in made} <= {"__pycache__", *(path.name for path in made if path.suffix == ".pyc")}
    assert not list((tmp_path / "home" / "runs").glob("*/tmp"))


def test_a_run_whose_command_is_killed(started: tuple[subprocess.Popen[str], int], tmp_path: Path) -> None:
    process, left = started
    token = token_of(left)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while with_token(token) or exists(left):
        assert time.monotonic() < deadline, "processes are left behind"
        time.sleep(0.02)
    with Ledger(Home(tmp_path / "home")) as ledger:
        assert ledger.execution("latest").status == "Interrupted"


def test_a_fresh_run_passes_its_token_to_every_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "quick", "--fresh", "--no-cache", "--json") == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    token = summary["parameters"]["Fresh"]
    assert token != "no" and {step["why"][0] for step in summary["steps"] if step["seconds"]} == {"--fresh"}
