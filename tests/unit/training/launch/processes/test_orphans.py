"""What is left of a program's process tree, in a real tree: the tests' own process adopts nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl(2)")


def run(tmp_path: Path, program: str, seconds: float) -> tuple[str, list[int]]:
    """Run `program`, a shell script, to its end below an adopting process; what it and its processes printed, and their
    pids (lines `pid N`)."""
    (tmp_path / "program.sh").write_text(textwrap.dedent(program))
    keeper = f"""
    import subprocess
    from drivetrain.training.launch.processes.orphans import adopt_orphans, end_orphans

    adopt_orphans()
    subprocess.run(["bash", "program.sh"])
    print("ended", end_orphans({seconds}), flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(keeper)], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout, [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("pid")]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_no_process_of_a_waiting_program_is_left(tmp_path: Path) -> None:
    output, _ = run(tmp_path, "sleep 0", 5)
    assert output == "ended 0\n"


def test_an_orphan_is_asked_to_leave(tmp_path: Path) -> None:
    """Also one in a session of its own, as torchrun's ranks are."""
    program = """
    setsid bash -c 'trap "echo saved; exit 0" TERM; echo pid $$; touch ready; while :; do sleep 0.01; done' &
    until [ -e ready ]; do sleep 0.01; done
    """
    output, pids = run(tmp_path, program, 20)
    assert "saved\n" in output and output.endswith("ended 1\n")
    assert all(is_gone(pid) for pid in pids) and len(pids) == 1


def test_children_of_an_orphan_are_asked_in_turn(tmp_path: Path) -> None:
    program = """
    bash -c 'bash -c "trap \\"echo inner; exit 0\\" TERM; echo pid \\$\\$; touch ready; while :; do sleep 0.01; done" &
             echo pid $$; wait' &
    until [ -e ready ]; do sleep 0.01; done
    """
    output, pids = run(tmp_path, program, 20)
    assert output.count("inner") == 1, "told once, by us and nobody else"
    assert all(is_gone(pid) for pid in pids) and len(pids) == 2


def test_processes_that_do_not_exit_are_killed(tmp_path: Path) -> None:
    program = """
    bash -c 'trap "" TERM; echo pid $$; touch ready; while :; do sleep 0.01; done' &
    until [ -e ready ]; do sleep 0.01; done
    """
    started = time.monotonic()
    output, pids = run(tmp_path, program, 0.3)
    assert output.endswith("ended 1\n") or output.endswith("ended 2\n")  # with its sleep
    assert all(is_gone(pid) for pid in pids) and len(pids) == 1
    assert 0.3 <= time.monotonic() - started < 20
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
