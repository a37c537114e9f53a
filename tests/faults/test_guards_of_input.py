"""harness/guards_of_input.py in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.training.launch.processes.parent import follows_parent

ROOT = Path(__file__).parents[2]
FILE = "tests/faults/harness/guards_of_input.py"


@pytest.mark.nightly
def test_a_missing_guard_is_noticed(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "slow",
        f"--basetemp={tmp_path / 'own'}",
    ]
    follow = follows_parent(signal.SIGKILL)
    ended = subprocess.run([*command, FILE], cwd=ROOT, preexec_fn=follow, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    dots = re.findall(r"^([.]+) +\[100%\]$", ended.stdout, re.MULTILINE)
    assert len(dots) == 1 and len(dots[0]) >= 18, ended.stdout
