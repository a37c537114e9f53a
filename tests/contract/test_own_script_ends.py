"""How a user's own script ends, through the real launcher: what it says of itself, what its rank was, who is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[1] / "fixtures" / "own_scripts"


def start(tmp_path: Path, script: str, *, launcher: str, processes: int = 1, **given: Any) -> subprocess.Popen[str]:
    for folder in ("data", "output"):
        (tmp_path / folder).mkdir()
    folders = {"train": "data", "source": SCRIPTS, "model": "model", "output": "output", "checkpoints": "kept"}
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "drivetrain.components.train_script", f"--script={script}"),
            *(f"--{name}={path}" for name, path in folders.items()),
            *(f"--launcher={launcher}", f"--processes={processes}", f"--hyperparameters={json.dumps(given)}"),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "DRIVETRAIN_FAILURE_FILE": str(tmp_path / "failure"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow_cases(but=["python-1-raise-1-failed: KeyError: 'price'"])
@pytest.mark.nightly_cases("torchrun-2-message-1-failed: it ended itself: no such column: price")
@pytest.mark.parametrize(
    ("how", "code", "reason"),
    [
        ("raise", 1, "failed: KeyError: 'price'"),
        ("exit", 1, "failed: it ended with exit code 3"),
        ("message", 1, "failed: it ended itself: no such column: price"),
        ("kill", 75, "failed: it was ended by SIGKILL"),
    ],
)
@pytest.mark.parametrize(
    ("launcher", "processes"), [("python", 1), pytest.param("torchrun", 2, marks=pytest.mark.slow)]
)
def test_a_failure_names_its_rank(
    how: str, code: int, reason: str, launcher: str, processes: int, tmp_path: Path
) -> None:
    """The other rank waits for ever; nothing but the launcher ends it."""
    last = processes - 1
    with start(tmp_path, "report.py", launcher=launcher, processes=processes, how=how, **{"fail-rank": last}) as job:
        _, errors = job.communicate(timeout=120)
    assert job.returncode == code
    failure = (tmp_path / "failure").read_text()
    assert failure.startswith(f"rank {last} of {processes} on 127.0.0.1 {reason}")
    assert failure.strip() in errors
    if how == "raise":
        assert f'File "{SCRIPTS}/report.py"' in failure and 'raise KeyError("price")' in failure


@pytest.mark.slow_cases("15-75")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_launcher_script_is_stopped_with_its_child_processes(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """The shell dies of the signal at once and has told its workers nothing."""
    with start(tmp_path, "launch.sh", launcher="python", how="wait") as job:
        assert job.stdout is not None
        ready = 0
        while ready < 2:
            line = job.stdout.readline()
            assert line, "it ended before its workers were there"
            ready += line == "ready\n"
        workers = [json.loads((tmp_path / "output" / f"rank{rank}.json").read_text())["pid"] for rank in (0, 1)]
        job.send_signal(number)
        job.communicate(timeout=60)  # ends only when nobody holds its output any more
    assert job.returncode == code
    assert (tmp_path / "failure").read_text().startswith(f"stopped by {number.name}")
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_leftover_processes_of_a_launcher_script_are_ended_and_reported(tmp_path: Path) -> None:
    with start(tmp_path, "leave.sh", launcher="python") as job:
        output, errors = job.communicate(timeout=60)
    assert job.returncode == 0, errors
    assert "launcher: ended 1 process that the program had left behind\n" in output
    assert "saved\n" in output
