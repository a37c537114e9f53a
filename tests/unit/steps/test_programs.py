"""How a component hands over to a program of the cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.steps import programs

# A process that runs the step, and has loaded what takes long.
STEP = """
import os, sys, tempfile
sys.modules["torch"] = sys
from drivetrain.steps import programs
programs.is_the_step = lambda module: True
print("before")
process = programs.ahead("my.component")
with tempfile.TemporaryDirectory() as folder:
    words = "import os, sys; print(os.environ['DRIVETRAIN_PARENT_PID'], os.listdir(sys.argv[1])); sys.exit(3)"
    if "fails" not in sys.argv:
        open(folder + "/there", "w").close()
        print(os.getpid(), flush=True)
        programs.run([sys.executable, "-c", words, folder], process=process)
    raise KeyError("price")
"""


def test_a_process_that_waits_becomes_the_program() -> None:
    """It is told its parent, finds the folder that was made after it, and its exit code is that of the step."""
    ended = subprocess.run([sys.executable, "-c", STEP], capture_output=True, text=True, timeout=60)
    before, step, told = ended.stdout.splitlines()
    assert before == "before"
    assert told == f"{step} ['there']"
    assert (ended.returncode, ended.stderr) == (3, "")


def test_a_process_that_gets_no_program_ends() -> None:
    """Else the pipe of what it prints would stay open."""
    ended = subprocess.run([sys.executable, "-c", STEP, "fails"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and ended.stderr.splitlines()[-1] == "KeyError: 'price'"
    assert ended.stdout == "before\n"


def test_nothing_waits_in_a_notebook_or_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert programs.ahead("my.component") is None
    monkeypatch.setattr(programs, "is_the_step", lambda module: True)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert programs.ahead("my.component") is None


def test_the_command_of_the_launcher() -> None:
    folders = {"data": Path("d"), "left_out": None}
    command = programs.launcher("my.program", 2, folders, {"batch_size": -1}, options=("--port=1",))
    assert command == [
        *(sys.executable, "-m", "drivetrain.training_scripts.launch", "--processes=2", "--port=1", "my.program"),
        *("--data=d", "--batch-size=-1"),
    ]
